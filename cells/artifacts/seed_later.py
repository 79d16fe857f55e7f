"""The saved-files contract: "Adaptive-control files" (28 to 40) and "Patch, check, and scoring files" (41 to 49)."""

from __future__ import annotations

from cells.artifacts.build_rows import (
    LIVE,
    LIVE_TO_POST,
    POST,
    START,
    START_AND_LIVE,
    branch,
    branch_point,
    cell,
    score,
    seed,
)
from cells.artifacts.conditions import Condition as C
from cells.artifacts.model import YES, Row, may, when

_POINT = "<branch_bundle_root>/<branch_point_id>"
_ATTEMPT = "<branch_attempt_dir>"
_REBUILD = may(context=when(C.BRANCH_SETUP), replay=when(C.BRANCH_SETUP))

ADAPTIVE: tuple[Row, ...] = (
    *seed(
        28,
        "adaptive-control debug writer",
        LIVE,
        may(scoring=when(C.CONTROLLER_QUALITY)),
        cell("<cell_dir>/adaptive_debug.jsonl"),
        ready_note="append-only when debug is enabled",
        note="controller output: neither turn evidence nor a right answer for training or checking a detector",
    ),
    *seed(
        29,
        "LLM hurdle detector",
        LIVE,
        may(controller=when(C.DETECTOR_RESULT), scoring=when(C.DETECTOR_QUALITY)),
        cell("<cell_dir>/llm_hurdle_detector.jsonl"),
        ready_note="append-only when enabled",
        note="not an input of the same detector call; not proof of a hurdle",
    ),
    *seed(
        30,
        "adaptive-control ledger writer",
        LIVE,
        may(scoring=when(C.INTERVENTIONS)),
        cell("<cell_dir>/adaptive_control_ledger.jsonl"),
        ready_note="append-only when enabled",
        note="controller output: no live detector input, not proof of a hurdle",
    ),
    *seed(
        31,
        "branch bundle capture",
        START_AND_LIVE,
        may(
            context=when(C.BRANCH_SETUP),
            detector=when(C.IN_BRANCH, C.PREFIX_ONLY, C.NAMED_FIELDS),
            controller=when(C.IN_BRANCH, C.PREFIX_ONLY, C.NAMED_FIELDS),
            scoring=when(C.BRANCH_SETUP),
            replay=when(C.BRANCH_SETUP),
        ),
        branch_point(f"{_POINT}/prefix.trace.jsonl", required=True),
        ready_note="live-prefix snapshot for the source run; run-start for branch attempts",
        note="holds no event of the source run after the branch slot",
    ),
    *seed(
        32,
        "branch bundle capture",
        START,
        _REBUILD,
        branch_point(f"{_POINT}/context_messages.json", required=True),
        ready_note="for branch attempts",
        note="to set up replay only; no live evidence about the source run",
    ),
    *seed(
        33,
        "branch bundle capture",
        START,
        _REBUILD,
        branch_point(f"{_POINT}/solver_state.json"),
        ready_note="for branch attempts",
        note="a projection snapshot; the source trace wins",
    ),
    *seed(
        34,
        "branch bundle capture",
        START,
        _REBUILD,
        branch_point(f"{_POINT}/guard_state.json", required=True),
        branch_point(f"{_POINT}/runtime_state.json", required=True),
        branch_point(f"{_POINT}/adaptive_state.json", required=True),
        ready_note="for branch attempts",
        note="no separate evidence of task progress",
    ),
    *seed(
        35,
        "branch bundle capture",
        START,
        may(context=when(C.BRANCH_SETUP), scoring=when(C.BRANCH_SETUP), replay=when(C.BRANCH_SETUP)),
        branch_point(f"{_POINT}/repo_snapshot/**", required=True),
        ready_note="for branch attempts",
        note="never mixed with the source worktree after the branch point",
    ),
    *seed(
        36,
        "branch runner",
        LIVE_TO_POST,
        may(
            context=when(C.IN_BRANCH, C.PREFIX_ONLY),
            detector=when(C.IN_BRANCH, C.PREFIX_ONLY, C.NAMED_FIELDS),
            controller=when(C.IN_BRANCH, C.PREFIX_ONLY, C.NAMED_FIELDS),
            scoring=when(C.BRANCH_RESULT),
        ),
        branch(f"{_ATTEMPT}/branch.trace.jsonl", required=True),
        ready_note="live during the branch attempt; post-run for studies of the source run",
        note="not the original trace: branch and source run stay separate",
    ),
    *seed(
        37,
        "branch runner",
        POST,
        may(scoring=when(C.BRANCH_RESULT)),
        branch(f"{_ATTEMPT}/branch_attempt_manifest.json", required=True),
    ),
    *seed(
        38,
        "branch runner",
        POST,
        may(scoring=when(C.BRANCH_RESULT)),
        branch(f"{_ATTEMPT}/branch_watch_result.json", required=True),
        note="never controller or detector input",
    ),
    *seed(
        39, "branch runner", POST, may(scoring=when(C.BRANCH_RESULT)), branch(f"{_ATTEMPT}/metrics.json", required=True)
    ),
    *seed(
        40,
        "branch runner client transcript writer",
        LIVE,
        may(context=when(C.EXPLICIT_REPLAY), replay=when(C.EXPLICIT_REPLAY)),
        branch(f"{_ATTEMPT}/transcript.log", required=True),
        ready_note="only audit or explicit replay may read it",
        note="no for normal context; the limits of the main transcripts hold",
    ),
)

POST_RUN: tuple[Row, ...] = (
    *seed(
        41,
        "patch collector / launcher",
        POST,
        may(scoring=YES),
        cell("<cell_dir>/<task>.patch", required=True),
        cell("<cell_dir>/<task>.unfiltered.patch", required=True),
        note="scorer input; never adaptive-control evidence",
    ),
    *seed(
        42,
        "launcher",
        POST,
        may(scoring=when(C.FINAL_TREE)),
        cell("<cell_dir>/git.status.txt", required=True),
    ),
    *seed(
        43,
        "patch gate / launcher",
        POST,
        may(scoring=when(C.GATE_STATUS)),
        cell("<cell_dir>/patch_gate.txt", required=True),
        cell("<cell_dir>/patch_gate.stderr", required=True),
    ),
    *seed(
        44,
        "verifier / launcher",
        POST,
        may(scoring=when(C.VERIFICATION_STATUS)),
        cell("<cell_dir>/sealed_verify.log", required=True),
    ),
    *seed(
        45,
        "scorer / launcher",
        POST,
        may(scoring=YES),
        cell("<cell_dir>/verdict.txt", required=True),
        note="never detector, context or intervention input",
    ),
    *seed(46, "scorer wrapper", POST, may(scoring=YES), score("<cell_dir>/score/preds.json", required=True)),
    *seed(47, "scorer wrapper", POST, may(scoring=YES), score("<cell_dir>/score/score_result.json", required=True)),
    *seed(
        48,
        "scorer wrapper",
        POST,
        may(scoring=when(C.SCORER_DEBUG)),
        score("<cell_dir>/score/scorer.log", required=True),
        score("<cell_dir>/score/hook.log"),
    ),
    *seed(
        49,
        "scorer wrapper",
        POST,
        may(scoring=YES),
        score("<cell_dir>/score/<task>.json", required=True),
        note="one report a task, in a standard form",
    ),
)
