"""The state of a study, from plan and ledger: what 20-interface calls the status document.

Rules:
1. Verdicts are null while cells are open: nobody steers a running study by its scores. `--unblind` is recorded.
2. Money counts every attempt, lost ones too; unknown cost is counted apart and never taken for zero.
3. Counts are of the cells of the current plan; attempts of dropped cells stay in the ledger and in the money.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cells.design.matrix import PlannedCell
from cells.evidence.history import History, Unit
from cells.outcome import Verdict
from flows.board import PHASES
from flows.freezing import FrozenStudy
from flows.regrades import with_regrades
from flows.schedule import EXPECTED_OF_CONTROL, Schedule
from launchers.labels import OwnerProcess, start_ticks, this_process


@dataclass(frozen=True)
class StudyState:
    """What is known of a study at one moment."""

    study: FrozenStudy
    accepted: Mapping[str, Unit]
    """cell directory -> accepted attempt"""
    history: History
    running: tuple[dict[str, Any], ...]
    facts: Mapping[str, Any]
    """Of the run that is going on: workers, paused, withheld."""

    @property
    def cells(self) -> tuple[PlannedCell, ...]:
        return self.study.plan.cells

    def unit(self, cell: PlannedCell) -> Unit | None:
        return self.accepted.get(cell.spec.directory)

    @property
    def pending(self) -> tuple[PlannedCell, ...]:
        """Cells without an accepted attempt."""
        return tuple(cell for cell in self.cells if self.unit(cell) is None)

    @property
    def withheld(self) -> dict[str, str]:
        """Tasks whose control failed here, with the reason."""
        return schedule_of(self, max_retries=0).failed_controls()

    @property
    def is_open(self) -> bool:
        """Whether something can still be run: then verdicts are hidden."""
        held = self.withheld
        return bool(self.running) or any(cell.is_control or cell.spec.task not in held for cell in self.pending)


def read_state(study: FrozenStudy) -> StudyState:
    """The state of a study on disk, and of its run if one is going on. Needs no lock."""
    history = study.store.history()
    board = _board(study.store.path / "locks" / "running.json")
    return StudyState(
        study, with_regrades(history.accepted_units(), history), history, tuple(board.pop("running", ())), board
    )


def schedule_of(state: StudyState, max_retries: int, cells: Iterable[PlannedCell] | None = None) -> Schedule:
    """The schedule of what is still to do."""
    decided = {
        cell.spec.cell_id: Verdict(unit.detail["verdict"])
        for cell in state.cells
        if (unit := state.unit(cell)) is not None
    }
    admitted = frozenset(task.id for task in state.study.plan.tasks if task.without_control)
    chosen = state.cells if cells is None else tuple(cells)
    return Schedule(chosen, decided, admitted, max_retries)


def status_document(state: StudyState, *, unblind: bool = False) -> dict[str, Any]:
    """The JSON of `assay status` and of the end of `assay run`."""
    units = [unit for cell in state.cells if (unit := state.unit(cell)) is not None]
    lost = [unit for unit in state.history.units.values() if unit.kind == "lost_attempt"]
    running = len(state.running)
    return {
        "study": state.study.plan.study,
        "plan_sha256": state.study.plan.sha256,
        "cells": {
            "total": len(state.cells),
            "accepted": len(units),
            "pending": len(state.pending) - running,
            "running": running,
        },
        "outcomes": dict(sorted(Counter(str(unit.detail["outcome"]) for unit in units).items())),
        "verdicts": verdict_counts(units, len(lost)) if unblind or not state.is_open else None,
        "infra_lost": len(lost),
        "contaminated": sum(bool(unit.detail.get("contaminated")) for unit in units),
        "cost": cost_of([*units, *lost]),
        "cost_unknown": sum(
            unit.detail.get("requests") not in (0, None) and unit.detail.get("cost") is None for unit in units
        ),
        "wall_s": round(sum(float(unit.detail.get("wall_s") or 0) for unit in units), 3),
        "phase_s": phase_seconds(units),
        "withheld": state.withheld,
        "controls": _controls(state),
        "revision": state.study.plan.revision,
        "paused": state.facts.get("paused"),
        "running": list(state.running),
    }


def verdict_counts(units: Iterable[Unit], not_run: int) -> dict[str, int]:
    """Cells by verdict; `not_run` counts lost attempts."""
    counted = Counter(str(unit.detail["verdict"]) for unit in units)
    return {verdict.value: counted.get(verdict.value, 0) for verdict in Verdict} | {Verdict.NOT_RUN.value: not_run}


def cost_of(units: Iterable[Unit]) -> dict[str, str] | None:
    """Exact sum of known costs by the one currency there is; None when nothing is known."""
    known = [unit.detail for unit in units if unit.detail.get("cost") is not None]
    if not known:
        return None
    currencies = sorted({str(detail.get("currency")) for detail in known})
    amount = sum((Decimal(str(detail["cost"])) for detail in known), Decimal(0))
    return {"amount": str(amount), "currency": "+".join(currencies)}


def phase_seconds(units: Iterable[Unit]) -> dict[str, float]:
    """Seconds by phase, summed over accepted attempts."""
    total = dict.fromkeys(PHASES, 0.0)
    for unit in units:
        for phase, seconds in (unit.detail.get("phase_s") or {}).items():
            total[phase] = total.get(phase, 0.0) + float(seconds)
    return {phase: round(seconds, 3) for phase, seconds in total.items()}


def _controls(state: StudyState) -> dict[str, int]:
    """How many control cells ended as they should."""
    done = [(cell, unit) for cell in state.cells if cell.is_control and (unit := state.unit(cell)) is not None]
    good = sum(unit.detail["verdict"] == EXPECTED_OF_CONTROL[str(cell.spec.arm.control)].value for cell, unit in done)
    return {"total": sum(cell.is_control for cell in state.cells), "done": len(done), "as_expected": good}


def _board(path: Path) -> dict[str, Any]:
    """The board of a living run; empty when its process is gone."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    owner = OwnerProcess.parse(str(content.get("owner", "")))
    if owner is None or owner.boot_id != this_process().boot_id or start_ticks(owner.pid) != owner.started:
        return {}
    return dict(content)
