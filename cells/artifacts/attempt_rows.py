"""Every file of an attempt as Assay lays it out: `start/`, `live/`, `post/`, `provenance/` and the files that close it.

Rules:
1. A file that the seed names keeps the seed's permissions: its row is made from the seed row by number.
2. Its writers are ours; its class may be narrower than the seed's, never wider (session.json is frozen at the start).
"""

from __future__ import annotations

from cells.artifacts.build_rows import LIVE, POST, START, ours
from cells.artifacts.conditions import Condition as C
from cells.artifacts.model import YES, Permission, Readiness, Role, Row, Scope, Writer, may, when
from cells.artifacts.seed_core import CORE
from cells.artifacts.seed_later import ADAPTIVE, POST_RUN

_W = Writer
_SETTINGS = when(C.RESTORE_SETTINGS)
_START_WRITERS = (_W.PLANNER, _W.LAUNCHER)


def _of(
    number: int,
    pattern: str,
    *writers: Writer,
    required: bool = False,
    ready: tuple[Readiness, ...] | None = None,
    replay: Permission | None = None,
) -> Row:
    """Our form of a seed row."""
    base = next(row for row in (*CORE, *ADAPTIVE, *POST_RUN) if row.seed_row == number)
    permissions = dict(base.permissions) | ({} if replay is None else {Role.REPLAY: replay})
    return Row(
        pattern=pattern,
        scope=Scope.ATTEMPT,
        writer=", ".join(writer.value for writer in writers),
        ready=base.ready if ready is None else frozenset(ready),
        permissions=permissions,
        required=required,
        seed_row=number,
        writers=frozenset(writers),
        note=base.note,
    )


_START_ROWS = (
    ours(
        "start/spec.json",
        START,
        may(detector=when(C.FIXED_SETUP_NAMED), scoring=when(C.GROUPING_ONLY), replay=_SETTINGS),
        *_START_WRITERS,
        required=True,
        note="the cell; its digest is cell_id",
    ),
    ours(
        "start/plan.json", START, may(scoring=when(C.GROUPING_ONLY), replay=_SETTINGS), *_START_WRITERS, required=True
    ),
    ours("start/reservation.json", START, may(), *_START_WRITERS, required=True),
    _of(1, "start/prompt.txt", *_START_WRITERS, required=True, replay=_SETTINGS),
    ours(
        "start/task_images.json",
        START,
        may(context=when(C.IMAGE_REQUEST), replay=_SETTINGS),
        *_START_WRITERS,
        note="task images only, verified before the first request",
    ),
    ours(
        "start/task_images/**",
        START,
        may(context=when(C.IMAGE_REQUEST), replay=_SETTINGS),
        *_START_WRITERS,
        note="handed to harnesses that take images",
    ),
    ours(
        "start/contracts/**",
        START,
        may(detector=when(C.FIXED_SETUP_NAMED), replay=_SETTINGS),
        *_START_WRITERS,
        required=True,
        note="snapshot of the table, the schemas, the detector code digests",
    ),
    ours(
        "start/source.json",
        START,
        may(replay=_SETTINGS),
        *_START_WRITERS,
        _W.REPLAYER,
        _W.BRANCHER,
        note="identity of the source run of a replay or branch attempt",
    ),
    ours(
        "start/overlay.toml",
        START,
        may(replay=_SETTINGS),
        *_START_WRITERS,
        _W.REPLAYER,
        _W.BRANCHER,
        note="settings applied at the handover, digested before the switch",
    ),
    _of(25, "start/run_manifest.env", *_START_WRITERS, required=True),
    _of(25, "start/container.id", *_START_WRITERS, required=True),
    _of(23, "start/session.json", *_START_WRITERS, required=True, ready=START),
    _of(24, "start/server_meta.json", *_START_WRITERS, _W.GATEWAY, required=True, replay=_SETTINGS),
    ours("start/SEAL.json", START, may(scoring=when(C.INTEGRITY), replay=when(C.INTEGRITY)), _W.SEALER, required=True),
)

_LIVE_ROWS = (
    ours(
        "live/wire.jsonl",
        LIVE,
        may(scoring=when(C.ACCOUNTING), replay=YES),
        _W.GATEWAY,
        _W.LAUNCHER,
        required=True,
        ready_note="append-only",
        note="the authority on what the model was sent and said; scoring: usage, timing and error fields; empty, and "
        "written by the launcher, in a cell without a model",
    ),
    ours("live/wire/**", LIVE, may(replay=YES), _W.GATEWAY, note="bodies by digest"),
    _of(4, "live/trace.jsonl", _W.GATEWAY, _W.LAUNCHER, required=True),
    ours(
        "live/fingerprint.txt", POST, may(scoring=when(C.INTEGRITY), replay=when(C.INTEGRITY)), _W.SEALER, required=True
    ),
    _of(8, "live/transcript.log", _W.GATEWAY, _W.LAUNCHER, required=True),
    ours(
        "live/usage.jsonl",
        LIVE,
        may(detector=when(C.FILE_NAMED, C.PREFIX_ONLY, C.NAMED_FIELDS), scoring=YES),
        _W.GATEWAY,
        _W.LAUNCHER,
        required=True,
        ready_note="append-only",
    ),
    _of(27, "live/system_log.jsonl", _W.LAUNCHER, _W.GATEWAY),
    _of(26, "live/harness.stdout.log", _W.LAUNCHER, _W.GATHERER, required=True),
    _of(26, "live/harness.stderr.log", _W.LAUNCHER, _W.GATHERER),
    ours(
        "live/noise.jsonl",
        LIVE,
        may(scoring=when(C.CONTAMINATION)),
        _W.SAMPLER,
        required=True,
        ready_note="append-only",
    ),
    _of(15, "live/.solver/state.json", _W.GATEWAY, _W.SEALER),
    _of(30, "live/adaptive_control_ledger.jsonl", _W.CONTROLLER, _W.GATEWAY),
    _of(28, "live/adaptive_debug.jsonl", _W.CONTROLLER, _W.GATEWAY),
    _of(29, "live/llm_hurdle_detector.jsonl", _W.DETECTOR, _W.CONTROLLER, _W.GATEWAY),
    ours(
        "live/harness/**",
        POST,
        may(scoring=when(C.GROUPING_ONLY), replay=when(C.RESTORE_SETTINGS)),
        _W.GATHERER,
        ready_note="gathered after the kill, before the seal",
        note="keeps the class of its own pattern where that is narrower; scrubbed of secrets",
    ),
    ours("live/SEAL.json", POST, may(scoring=when(C.INTEGRITY), replay=when(C.INTEGRITY)), _W.SEALER, required=True),
)

_POST_ROWS = (
    ours(
        "post/journal.jsonl",
        POST,
        may(scoring=when(C.INTEGRITY)),
        _W.JOURNAL,
        required=True,
        note="chained to the live seal",
    ),
    ours("post/tree.tar.zst", POST, may(scoring=when(C.FINAL_TREE)), _W.COLLECTOR, required=True, note="scorer input"),
    ours("post/collect.json", POST, may(scoring=when(C.FINAL_TREE)), _W.COLLECTOR, required=True),
    _of(41, "post/<task>.unfiltered.patch", _W.COLLECTOR, required=True),
    _of(41, "post/<task>.patch", _W.COLLECTOR, _W.GATE, required=True),
    _of(42, "post/git.status.txt", _W.COLLECTOR, required=True),
    _of(43, "post/patch_gate.txt", _W.GATE, required=True),
    _of(43, "post/patch_gate.stderr", _W.GATE, required=True),
    ours("post/gate.json", POST, may(scoring=when(C.GATE_STATUS)), _W.GATE),
    _of(44, "post/sealed_verify.log", _W.VERIFIER, required=True),
    ours("post/report.xml", POST, may(scoring=YES), _W.VERIFIER, note="report of pytest and ctest"),
    ours("post/report.json", POST, may(scoring=YES), _W.VERIFIER, note="report of jest"),
    ours("post/report.jsonl", POST, may(scoring=YES), _W.VERIFIER, note="report of go and cargo"),
    ours("post/report.tap", POST, may(scoring=YES), _W.VERIFIER, note="report of a TAP producer"),
    ours("post/reward.json", POST, may(scoring=YES), _W.VERIFIER, note="report of a script verifier"),
    ours("post/verify.json", POST, may(scoring=YES), _W.VERIFIER, required=True),
    _of(45, "post/verdict.txt", _W.SCORER, required=True),
    ours(
        "post/leaks.json", POST, may(scoring=when(C.CONTAMINATION)), _W.LEAK_SCAN, required=True, note="never a verdict"
    ),
    ours("post/noise.json", POST, may(scoring=when(C.CONTAMINATION)), _W.NOISE, required=True, note="never a verdict"),
    _of(21, "post/checkpoint.json", _W.SCORER, _W.COLLECTOR, required=True),
    _of(22, "post/metrics.json", _W.SCORER, _W.COLLECTOR, required=True),
    _of(46, "post/score/preds.json", _W.SCORER, required=True),
    _of(47, "post/score/score_result.json", _W.SCORER, required=True),
    _of(48, "post/score/scorer.log", _W.SCORER, required=True),
    _of(48, "post/score/hook.log", _W.SCORER),
    _of(49, "post/score/<task>.json", _W.SCORER, required=True),
)

_CLOSING_ROWS = (
    ours(
        "provenance/**",
        START,
        may(scoring=when(C.GROUPING_ONLY), replay=_SETTINGS),
        _W.PLANNER,
        _W.PUBLISHER,
        required=True,
        note="origin of task and image, licences, locks, harness layer",
    ),
    ours("run_meta.json", POST, may(scoring=when(C.GROUPING_ONLY), replay=_SETTINGS), _W.PUBLISHER, required=True),
    ours(
        "manifest.json",
        POST,
        may(scoring=when(C.INTEGRITY), replay=when(C.INTEGRITY)),
        _W.PUBLISHER,
        required=True,
        ready_note="the last member",
    ),
    ours(
        "signature.json",
        POST,
        may(scoring=when(C.INTEGRITY)),
        _W.PUBLISHER,
        note="optional signature over the manifest",
    ),
)

ATTEMPT: tuple[Row, ...] = (*_START_ROWS, *_LIVE_ROWS, *_POST_ROWS, *_CLOSING_ROWS)
