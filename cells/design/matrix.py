"""The matrix of a study and the order of its cells.

Rules (issue of the main job, "Design"):
1. Controls come first, since a task that fails its control does not enter the study.
2. Then blocks (task, sample) in random order from the study's seed; within a block the arms stand next to each other in
   random order,
   so that drift of machine or provider hits the arms of a pair alike.
3. A block's place depends only on seed, task and sample, an arm's place only on seed, block and arm: adding tasks,
   samples or arms moves nothing else
   relative to each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cells.design.cell import CellSpec


@dataclass(frozen=True)
class PlannedCell:
    """A cell and its place in the run (0-based)."""

    spec: CellSpec
    order: int

    @property
    def is_control(self) -> bool:
        return self.spec.arm.control is not None


def ordered(specs: Iterable[CellSpec], seed: int) -> tuple[PlannedCell, ...]:
    """All cells in the order in which they are started."""
    return tuple(
        PlannedCell(spec, place) for place, spec in enumerate(sorted(specs, key=lambda spec: _place(spec, seed)))
    )


def _place(spec: CellSpec, seed: int) -> tuple[int, bytes, bytes]:
    kind = "control" if spec.arm.control else "arm"
    block = _draw(seed, kind, spec.task, str(spec.sample))
    return (0 if spec.arm.control else 1, block, _draw(seed, kind, spec.task, str(spec.sample), spec.arm.name))


def _draw(seed: int, *words: str) -> bytes:
    state = hashlib.sha256(str(seed).encode())
    for word in words:
        state.update(b"\0" + word.encode())
    return state.digest()


def blocks(cells: Sequence[PlannedCell]) -> list[list[PlannedCell]]:
    """Runs of neighbours with the same task and sample, in order."""
    result: list[list[PlannedCell]] = []
    for cell in cells:
        previous = result[-1][-1].spec if result else None
        if previous and (previous.task, previous.sample, previous.arm.control is None) == (
            cell.spec.task,
            cell.spec.sample,
            cell.spec.arm.control is None,
        ):
            result[-1].append(cell)
        else:
            result.append([cell])
    return result
