"""Files of a study and of a studies root, and the bundles beside attempts: verifications, scores, replays."""

from __future__ import annotations

from cells.artifacts.build_rows import EVENT, POST, START, ours
from cells.artifacts.conditions import Condition as C
from cells.artifacts.model import YES, Row, Scope, Writer, may, when

_W = Writer
_GROUPING = may(scoring=when(C.GROUPING_ONLY))
_INTEGRITY = may(scoring=when(C.INTEGRITY), replay=when(C.INTEGRITY))
_DERIVED = "derived: delete and rebuild gives the same bytes"

STUDY: tuple[Row, ...] = (
    ours("study.json", START, _GROUPING, _W.PLANNER, scope=Scope.STUDY, required=True, ready_note="frozen design"),
    ours("study.toml", START, _GROUPING, _W.PLANNER, scope=Scope.STUDY, ready_note="the person's file, as frozen"),
    ours("plan.lock.json", START, _GROUPING, _W.PLANNER, scope=Scope.STUDY, required=True),
    ours("plan.lock.rNNN.json", EVENT, _GROUPING, _W.PLANNER, scope=Scope.STUDY, ready_note="after a revision"),
    ours(
        "policy.json", START, _GROUPING, _W.PLANNER, scope=Scope.STUDY, required=True, note="permission, not integrity"
    ),
    ours(
        "inputs/**",
        START,
        may(replay=when(C.RESTORE_SETTINGS)),
        _W.PLANNER,
        scope=Scope.STUDY,
        note="scripts and overlays, frozen by digest",
    ),
    ours(
        "ledger.jsonl",
        EVENT,
        _INTEGRITY,
        _W.PUBLISHER,
        _W.PLANNER,
        scope=Scope.STUDY,
        required=True,
        note="append-only, hash chained",
    ),
    ours("catalog.json", EVENT, _GROUPING, _W.PUBLISHER, scope=Scope.STUDY, note=_DERIVED),
    ours("latest.json", EVENT, _GROUPING, _W.PUBLISHER, scope=Scope.STUDY, note=_DERIVED),
    ours("tasks/<task>/**", START, may(), _W.PLANNER, scope=Scope.STUDY, required=True, note="frozen by digest"),
    ours(
        "tasks/<task>/sealed/**",
        POST,
        may(scoring=YES),
        _W.PLANNER,
        scope=Scope.STUDY,
        required=True,
        ready_note="used after the run only",
        note="verifier pack: never mounted into a live cell",
    ),
    ours(
        "cells/<cell>/attempts/aNNN/**",
        POST,
        may(scoring=when(C.GROUPING_ONLY), replay=when(C.RESTORE_SETTINGS)),
        _W.PUBLISHER,
        scope=Scope.STUDY,
        note="a bundle; its members have rows of their own",
    ),
    ours(
        "cells/<cell>/verifications/vNNN/**",
        POST,
        may(scoring=YES),
        _W.PUBLISHER,
        scope=Scope.STUDY,
        note="a bundle of its own, joined by digest",
    ),
    ours(
        "cells/<cell>/scores/sNNN/**",
        POST,
        may(scoring=YES),
        _W.PUBLISHER,
        scope=Scope.STUDY,
        note="a bundle of its own, joined by digest",
    ),
    ours(
        "branches/<branch_point_id>/bundle/**",
        POST,
        may(scoring=when(C.BRANCH_SETUP), replay=when(C.BRANCH_SETUP)),
        _W.BRANCHER,
        scope=Scope.STUDY,
        note="a bundle; for the source study it is post-run",
    ),
    ours(
        "branches/<branch_point_id>/attempts/**",
        POST,
        may(scoring=when(C.BRANCH_RESULT)),
        _W.BRANCHER,
        scope=Scope.STUDY,
    ),
    ours("replays/rNNN/**", POST, may(scoring=when(C.GROUPING_ONLY), replay=YES), _W.REPLAYER, scope=Scope.STUDY),
    ours("tables/<table>.parquet", POST, may(scoring=YES), _W.REPORTER, scope=Scope.STUDY, note=_DERIVED),
    ours("report.html", POST, may(), _W.REPORTER, scope=Scope.STUDY, note=_DERIVED),
    ours("quarantine/**", EVENT, may(), _W.PUBLISHER, scope=Scope.STUDY, note="untouched bytes with the reason"),
    ours(
        "signatures/**",
        EVENT,
        _INTEGRITY,
        _W.PUBLISHER,
        scope=Scope.STUDY,
        note="DSSE signatures over the ledger's head, apart from what they sign",
    ),
    ours("run.log", EVENT, may(), _W.LAUNCHER, scope=Scope.STUDY, note="to debug only"),
    ours(
        ".stage/**",
        EVENT,
        may(),
        _W.LAUNCHER,
        _W.PUBLISHER,
        scope=Scope.STUDY,
        note="units under construction: nothing there is evidence",
    ),
    ours("locks/**", EVENT, may(), _W.LAUNCHER, _W.PUBLISHER, scope=Scope.STUDY),
    ours(
        "root.json",
        START,
        may(),
        _W.PLANNER,
        scope=Scope.STUDIES,
        required=True,
        note="root identity; the only absolute path",
    ),
    ours("registry.json", EVENT, may(), _W.REPORTER, scope=Scope.STUDIES, note="read-side snapshots; the study wins"),
    ours("registry.events.jsonl", EVENT, may(), _W.REPORTER, scope=Scope.STUDIES, note="append-only"),
    ours(".locks/**", EVENT, may(), _W.PLANNER, scope=Scope.STUDIES),
    ours(
        ".prefect/**",
        EVENT,
        may(),
        _W.LAUNCHER,
        scope=Scope.STUDIES,
        note="orchestration only; a study survives its loss",
    ),
)


def _later_bundle(scope: Scope, *names: tuple[str, Writer]) -> tuple[Row, ...]:
    """A bundle made from a published attempt: its own members, and the three that name its source and close it."""
    closing = (
        ("source.json", _W.PUBLISHER),
        ("run_meta.json", _W.PUBLISHER),
        ("manifest.json", _W.PUBLISHER),
    )
    return tuple(
        ours(
            name,
            POST,
            may(scoring=YES, replay=when(C.INTEGRITY)),
            writer,
            scope=scope,
            required=name == "manifest.json",
        )
        for name, writer in (*names, *closing)
    )


_VERIFICATION = _later_bundle(
    Scope.VERIFICATION,
    ("verify.json", _W.VERIFIER),
    ("sealed_verify.log", _W.VERIFIER),
    ("report.xml", _W.VERIFIER),
    ("report.json", _W.VERIFIER),
    ("report.jsonl", _W.VERIFIER),
    ("report.tap", _W.VERIFIER),
    ("reward.json", _W.VERIFIER),
    ("patch_gate.txt", _W.GATE),
    ("patch_gate.stderr", _W.GATE),
    ("gate.json", _W.GATE),
    ("<task>.patch", _W.GATE),
    ("verdict.txt", _W.SCORER),
)
_RESCORE = _later_bundle(
    Scope.RESCORE,
    ("verdict.txt", _W.SCORER),
    ("score/preds.json", _W.SCORER),
    ("score/score_result.json", _W.SCORER),
    ("score/scorer.log", _W.SCORER),
    ("score/hook.log", _W.SCORER),
    ("score/<task>.json", _W.SCORER),
)
_REPLAY = _later_bundle(
    Scope.REPLAY,
    ("fidelity.json", _W.REPLAYER),
    ("census.json", _W.REPLAYER),
    ("divergence.txt", _W.REPLAYER),
    ("divergences.jsonl", _W.REPLAYER),
)

BESIDE: tuple[Row, ...] = (*_VERIFICATION, *_RESCORE, *_REPLAY)
