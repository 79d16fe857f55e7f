"""`assay regrade`: verify and score accepted attempts again from their stored collections; the agent does not run.

Rules:
1. The attempt's bundle is read only; a verification (v002, ...) and a score (s002, ...) are published beside it.
2. A verdict that comes out as `invalid` is published too: a failed verification is evidence.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells.design.matrix import PlannedCell
from cells.design.study_model import NoiseSection
from cells.evidence.digest import canonical_json
from cells.evidence.files import write_new
from cells.evidence.history import Unit
from cells.evidence.units import Stage, new_score, new_verification, publish_unit, source_of
from cells.outcome import resolved_of
from cells.sandbox import SandboxFactory
from flows.freezing import FrozenStudy
from flows.image_shelf import ImageShelf
from flows.status import StudyState
from flows.task_memory import TaskMemory
from scoring.post_run import PostSettings
from scoring.regrade import Regraded, regrade


@dataclass(frozen=True)
class Change:
    """One regraded cell: verdicts before and after, and expected tests whose result differs."""

    cell: str
    verification: str
    before: str
    after: str
    tests: dict[str, tuple[str | None, str | None]]

    @property
    def differs(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Regrader:
    """Regrades cells of one study; the caller holds the study's lock."""

    study: FrozenStudy
    sandboxes: SandboxFactory
    images: ImageShelf
    stop: threading.Event

    def run(self, state: StudyState, cells: list[PlannedCell], say: Callable[[str], None]) -> list[Change]:
        """Regrade accepted attempts that were verified, in the plan's order."""
        tasks = TaskMemory(self.study.task)
        changes = []
        for place, cell in enumerate(cells, 1):
            unit = state.unit(cell)
            if unit is None or self.stop.is_set():
                continue
            change = self._one(unit, cell, tasks)
            say(
                f"[{place}/{len(cells)}] {cell.spec.directory} {change.verification}: {change.before} -> {change.after}"
            )
            changes.append(change)
        return changes

    def _one(self, unit: Unit, cell: PlannedCell, tasks: TaskMemory) -> Change:
        task = tasks.task(cell.spec.task)
        verification, score = new_verification(self.study.store, unit), new_score(self.study.store, unit)
        version = int(verification.name[1:])
        design = self.study.plan.design
        settings = PostSettings(
            study=self.study.plan.study,
            seed=self.study.plan.seed,
            noise=NoiseSection.model_validate(design["noise"]),
        )
        with tempfile.TemporaryDirectory(prefix="assay-regrade-") as scratch:
            found = regrade(
                self.study.store.bundle(unit),
                Path(scratch) / "attempt",
                task,
                self.images.image(task),
                self.sandboxes,
                version=version,
                stop=self.stop,
                settings=settings,
            )
        ids = _ids(self.study, unit, cell, found, version)
        self._publish(verification, "verification", found.verification, unit, ids)
        self._publish(score, "score", found.scores, unit, ids)
        before = str(unit.detail["verdict"])
        return Change(cell.spec.directory, verification.name, before, ids["verdict"], dict(found.changed_tests))

    def _publish(self, stage: Stage, kind: str, members: Any, unit: Unit, ids: dict[str, Any]) -> None:
        for name, content in {**members, "source.json": canonical_json(source_of(unit))}.items():
            path = stage.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, content)
        publish_unit(self.study.store, stage, kind, ids)


def _ids(study: FrozenStudy, unit: Unit, cell: PlannedCell, found: Regraded, version: int) -> dict[str, Any]:
    f2p, p2p = found.after.f2p, found.after.p2p
    fraction = None if f2p is None else (f2p.passed / f2p.total if f2p.total else 0.0)
    return {
        "study": study.plan.study,
        "cell": cell.spec.directory,
        "cell_id": cell.spec.cell_id,
        "source": unit.digest,
        "verification": version,
        "verdict": found.result.verdict.value,
        "reason": found.result.reason,
        "resolved": resolved_of(found.result.verdict),
        "f2p_passed": None if f2p is None else f2p.passed,
        "f2p_total": None if f2p is None else f2p.total,
        "f2p_fraction": fraction,
        "p2p_passed": None if p2p is None else p2p.passed,
        "p2p_total": None if p2p is None else p2p.total,
        "verify_s": found.after.duration_s,
    }
