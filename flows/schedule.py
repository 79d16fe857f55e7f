"""Which cell is started next: pure bookkeeping of one run of a study, no clock, no engine.

Rules:
1. Cells start in the plan's order; finished ones are never started again.
2. A lost attempt is tried again at once, at most `max_retries` times; then the cell is lost.
3. A cell of an arm waits until the controls of its task are decided. A task whose control failed is withheld,
   unless the study admits it by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cells.design.matrix import PlannedCell
from cells.outcome import Verdict

EXPECTED_OF_CONTROL = {"oracle": Verdict.RESOLVED, "nop": Verdict.UNRESOLVED}


@dataclass
class Schedule:
    """Cells still to be run. `decided` are verdicts of cells that are accepted already, by cell id."""

    cells: tuple[PlannedCell, ...]
    decided: dict[str, Verdict]
    admitted: frozenset[str] = frozenset()
    max_retries: int = 2
    lost: dict[str, int] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._waiting = [cell for cell in self.cells if cell.spec.cell_id not in self.decided]
        self._aside: list[PlannedCell] = []
        self._controls: dict[str, list[PlannedCell]] = {}
        for cell in self.cells:
            if cell.is_control:
                self._controls.setdefault(cell.spec.task, []).append(cell)

    def next(self) -> PlannedCell | None:
        """The next cell to start, now marked running; None when nothing can start at the moment."""
        for place, cell in enumerate(self._waiting):
            if self._controls_allow(cell):
                del self._waiting[place]
                self.running.add(cell.spec.cell_id)
                return cell
        return None

    def finished(self, cell: PlannedCell, verdict: Verdict) -> None:
        """The cell has an accepted attempt."""
        self.running.discard(cell.spec.cell_id)
        self.decided[cell.spec.cell_id] = verdict

    def infra_lost(self, cell: PlannedCell) -> bool:
        """An attempt was lost; True when the cell will be tried again."""
        key = cell.spec.cell_id
        self.running.discard(key)
        self.lost[key] = self.lost.get(key, 0) + 1
        if again := not self._is_lost(cell):
            self._waiting.insert(0, cell)
        return again

    def set_aside(self, cell: PlannedCell) -> None:
        """The attempt ended without a verdict (stop, or a fault of ours): open for the next run, not for this one."""
        self.running.discard(cell.spec.cell_id)
        self._aside.append(cell)

    def withheld(self) -> tuple[PlannedCell, ...]:
        """Cells that are not run because their task failed its control here."""
        failed = self.failed_controls()
        return tuple(cell for cell in self._waiting if not cell.is_control and cell.spec.task in failed)

    def failed_controls(self) -> dict[str, str]:
        """Tasks that are not admitted, with the reason."""
        found = (
            (control.spec.task, self._control_failure(control)) for task in self._controls.values() for control in task
        )
        return {task: reason for task, reason in found if reason is not None and task not in self.admitted}

    def open_cells(self) -> tuple[PlannedCell, ...]:
        """Cells that neither run nor are finished, lost or withheld."""
        withheld = {cell.spec.cell_id for cell in self.withheld()}
        return tuple(cell for cell in (*self._waiting, *self._aside) if cell.spec.cell_id not in withheld)

    def lost_cells(self) -> tuple[PlannedCell, ...]:
        """Cells whose every try was lost."""
        return tuple(cell for cell in self.cells if self._is_lost(cell))

    def _is_lost(self, cell: PlannedCell) -> bool:
        return self.lost.get(cell.spec.cell_id, 0) > self.max_retries

    def _controls_allow(self, cell: PlannedCell) -> bool:
        if cell.is_control or cell.spec.task in self.admitted:
            return True
        mine = self._controls.get(cell.spec.task, [])
        return all(self._is_settled(control) and self._control_failure(control) is None for control in mine)

    def _is_settled(self, control: PlannedCell) -> bool:
        return control.spec.cell_id in self.decided or self._is_lost(control)

    def _control_failure(self, control: PlannedCell) -> str | None:
        """Why this control speaks against its task; None while it is open or as it should be."""
        kind = str(control.spec.arm.control)
        if self._is_lost(control):
            return f"its {kind} control was lost to the infrastructure"
        verdict = self.decided.get(control.spec.cell_id)
        expected = EXPECTED_OF_CONTROL[kind]
        if verdict is None or verdict is expected:
            return None
        return f"its {kind} control is {verdict.value}, expected {expected.value}"
