"""What an earlier, killed run left of a study, and what becomes of it before a new run starts.

Rules (10-architecture "Faults"; issue of the main job, "Flow"):
1. Published and whole, but not in the ledger: its rows are written (cells.evidence.units.reconcile).
2. Sealed and collected: resumed at the first missing post-run step.
3. Anything less: published as a lost attempt, so that its money counts; what cannot be read goes to quarantine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cells.attempt import open_sealed
from cells.design.matrix import PlannedCell
from cells.errors import EvidenceError, InfraFailure
from cells.evidence.quarantine import quarantine
from cells.evidence.study_store import STAGE, StudyStore
from cells.evidence.units import Stage, discard, reconcile, stages
from flows.losses import publish_loss
from flows.post_run import PostSide
from scoring.post_run import can_resume


@dataclass(frozen=True)
class Recovered:
    """What was found: stages to resume by cell id, and one line for each thing that was done."""

    resumable: dict[str, Stage]
    done: tuple[str, ...]


def recover(side: PostSide, cells: Iterable[PlannedCell]) -> Recovered:
    """Settle every leftover of the study; the caller holds its lock."""
    store, by_directory = side.store, {cell.spec.directory: cell for cell in cells}
    done = reconcile(store)
    resumable: dict[str, Stage] = {}
    for stage in stages(store):
        cell = by_directory.get(_cell_of(stage))
        if "/attempts/" not in stage.unit:
            discard(store, stage)
            done.append(f"{stage.unit}: an unfinished later observation was removed")
        elif stage.abandoned or cell is None:
            done.append(
                _set_aside(store, stage, "its fsync failed" if stage.abandoned else "its cell is not in the plan")
            )
        elif (
            _is_resumable(stage) and cell.spec.cell_id not in resumable and cell.spec.directory not in store.accepted()
        ):
            resumable[cell.spec.cell_id] = stage
            done.append(f"{stage.unit}: sealed and collected; goes on at its first missing step")
        else:
            done.append(_publish_lost(side, cell, stage))
    return Recovered(resumable, tuple(done))


def _is_resumable(stage: Stage) -> bool:
    try:
        open_sealed(stage.path)
    except (EvidenceError, OSError):
        return False
    return can_resume(stage.path)


def _publish_lost(side: PostSide, cell: PlannedCell, stage: Stage) -> str:
    failure = InfraFailure("orchestrator_died", "the process that ran the study ended before this attempt did")
    try:
        publish_loss(side, cell, stage, failure)
    except (EvidenceError, OSError) as error:
        return _set_aside(side.store, stage, f"cannot be read: {error}")
    return f"{stage.unit}: published as lost ({failure.reason})"


def _set_aside(store: StudyStore, stage: Stage, reason: str) -> str:
    name = f"{STAGE}/{stage.path.relative_to(store.path / STAGE)}"
    return f"{stage.unit}: {reason}; moved to {quarantine(store, name, reason)}"


def _cell_of(stage: Stage) -> str:
    parts = stage.unit.split("/")
    return parts[1] if len(parts) > 1 else ""
