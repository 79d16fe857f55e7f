"""A frozen study whose cells were never run: attempts are sealed and published with the outcome a test asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cells.attempt import LiveAttempt
from cells.design.matrix import PlannedCell
from cells.design.study_file import load_study
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.run_meta import RunFacts, build_run_meta
from cells.evidence.units import Stage, begin_attempt, publish_unit
from flows.freezing import FrozenStudy, freeze_study
from flows.planning import draft_plan
from scoring.table import cell_row

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart" / "study.toml"
RUNTIME = {"engine": {"name": "played", "version": "0"}, "kernel": "none", "assay": "0"}
Play = Callable[[PlannedCell], str]
"""The verdict of a cell, or `open` for one that has no result."""


def frozen_example(studies: Path) -> FrozenStudy:
    """The quickstart, frozen; nothing has run."""
    return freeze_study(draft_plan(load_study(EXAMPLE)), studies)


def played(studies: Path, play: Play | None = None) -> FrozenStudy:
    """The quickstart with a result for every cell."""
    study = frozen_example(studies)
    with study.store.writing():
        for cell in study.plan.cells:
            verdict = (play or by_arm)(cell)
            if verdict != "open":
                publish_cell(study, cell, verdict)
    return study


def by_arm(cell: PlannedCell) -> str:
    """Controls as they must; the treatment always resolves, the control arm by a fixed draw."""
    arm = cell.spec.arm.name
    if arm in ("oracle", "treatment"):
        return "resolved"
    draw = hashlib.sha256(f"{cell.spec.task}/{cell.spec.sample}".encode()).digest()[0]
    return "resolved" if arm == "control" and draw < 80 else "unresolved"


def publish_cell(study: FrozenStudy, cell: PlannedCell, verdict: str) -> None:
    """Seal and publish one attempt; `not_run` is a lost one."""
    store, spec = study.store, cell.spec
    stage = begin_attempt(store, spec.directory, {"cell_id": spec.cell_id, "order": cell.order})
    lost = verdict == "not_run"
    _build(study, cell, stage, verdict)
    row = {key: value for key, value in cell_row(stage.path).items() if key != "bundle_sha256"}
    ids = {**row, "cell": spec.directory, "runtime": row["runtime_sha256"], "phase_s": {"run": 2.0, "verify": 1.0}}
    publish_unit(store, stage, "lost_attempt" if lost else "attempt", ids)


def _build(study: FrozenStudy, cell: PlannedCell, stage: Stage, verdict: str) -> None:
    spec, lost = cell.spec, verdict == "not_run"
    live = LiveAttempt.create(stage.path)
    live.write("start/spec.json", canonical_json(spec.as_json()), "planner")
    live.write("start/plan.json", canonical_json({"v": 1, "stages": []}), "planner")
    live.write("start/prompt.txt", b"Make the tests pass.\n", "planner")
    live.seal_start("none", {})
    trace = canonical_json({"v": 1, "seq": 0, "event": "session_start", "cell": spec.directory}) + b"\n"
    live.append("live/trace.jsonl", trace, "gateway")
    live.write("live/fingerprint.txt", digest_bytes(trace).encode() + b"\n", "sealer")
    budget = {"turns": 3, "requests": 3, "input_tokens": 1000 + cell.order, "output_tokens": 50, "cost": "0.001"}
    ended = "infra_lost" if lost else "completed"
    facts = {"ended": ended, "timings": {"run_s": 2.0}, "budget": {**budget, "currency": "USD"}}
    sealed = live.seal([], facts)
    reason = "engine_lost" if lost else "tests_passed"
    sealed.write("post/verify.json", canonical_json({"v": 1, "verdict": verdict, "reason": reason}), "verifier")
    if not lost:
        sealed.write("post/score/score_result.json", canonical_json(_score(verdict)), "scorer")
    origin = {"v": 1, "id": spec.task, "repository": study.plan.task(spec.task).repository}
    sealed.write("provenance/task.json", canonical_json(origin), "planner")
    meta = RunFacts(
        study=study.plan.study,
        cell=spec.directory,
        cell_id=spec.cell_id,
        attempt=stage.name,
        verdict=verdict,
        outcome=ended,
        runtime=RUNTIME,
        more={"order": cell.order, "phase_s": {"run": 2.0, "verify": 1.0}, "reason": reason},
    )
    sealed.write("run_meta.json", build_run_meta(stage.path, meta), "publisher")


def _score(verdict: str) -> Mapping[str, Any]:
    """A score file as far as the cells table reads it."""
    resolved = {"resolved": 1, "unresolved": 0}.get(verdict)
    counted = None if resolved is None else {"passed": 2 * resolved, "total": 2}
    return {
        "v": 1,
        "outcome": "completed",
        "patch": "present",
        "verdict": verdict,
        "reason": "tests_passed" if resolved else "tests_failed",
        "resolved": resolved,
        "f2p": counted,
        "p2p": counted,
        "contaminated": {"leaks": False, "noise": False},
    }
