"""The schedule of a run: order kept, nothing twice, lost cells tried again, tasks without a good control withheld."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.design.cell import ArmContent, CellLimits, CellSpec
from cells.design.matrix import PlannedCell, ordered
from cells.outcome import Verdict
from flows.schedule import EXPECTED_OF_CONTROL, Schedule

LIMITS = CellLimits("wall", 10.0, None, None, None, None, 256, 1.0, 64, "memory", 64, 30.0)


def spec(task: str, arm: str, sample: int = 1) -> CellSpec:
    control = arm if arm in EXPECTED_OF_CONTROL else None
    content = ArmContent(arm, control or "command", None, None, {}, control=control)
    return CellSpec("s", task, "sha256:" + "1" * 64, "sha256:" + "2" * 64, content, LIMITS, sample)


def cells(tasks: str = "ab", arms: tuple[str, ...] = ("x", "y"), samples: int = 1) -> tuple[PlannedCell, ...]:
    return ordered([spec(t, a, n) for t in tasks for a in arms for n in range(1, samples + 1)], seed=7)


def finish(schedule: Schedule, cell: PlannedCell) -> None:
    expected = EXPECTED_OF_CONTROL[cell.spec.arm.control] if cell.spec.arm.control else Verdict.UNRESOLVED
    schedule.finished(cell, expected)


def test_cells_start_in_the_plans_order_and_once_each() -> None:
    plan = cells()
    schedule = Schedule(plan, {})
    started = [schedule.next() for _ in plan]
    assert started == list(plan)
    assert schedule.next() is None


def test_accepted_cells_are_never_started_again() -> None:
    plan = cells()
    schedule = Schedule(plan, {plan[0].spec.cell_id: Verdict.RESOLVED, plan[2].spec.cell_id: Verdict.INVALID})
    assert [schedule.next(), schedule.next(), schedule.next()] == [plan[1], plan[3], None]


def test_a_lost_attempt_is_tried_again_at_once_and_given_up_after_the_last_retry() -> None:
    plan = cells()
    schedule = Schedule(plan, {}, max_retries=1)
    first = schedule.next()
    assert first is not None and schedule.infra_lost(first)
    assert schedule.next() == first
    assert not schedule.infra_lost(first)
    assert schedule.lost_cells() == (first,)
    assert schedule.next() == plan[1]


def test_an_arm_waits_for_the_controls_of_its_task_only() -> None:
    plan = cells("ab", ("x", "oracle", "nop"))
    schedule = Schedule(plan, {})
    controls = [cell for _ in range(4) if (cell := schedule.next()) is not None]
    assert len(controls) == 4 and all(cell.is_control for cell in controls)
    assert schedule.next() is None
    for cell in controls:
        if cell.spec.task == "b":
            finish(schedule, cell)
    freed = schedule.next()
    assert freed is not None and (freed.spec.task, freed.spec.arm.name) == ("b", "x")
    assert schedule.next() is None


@pytest.mark.parametrize(
    ("control", "verdict"), [("oracle", Verdict.UNRESOLVED), ("oracle", Verdict.INVALID), ("nop", Verdict.RESOLVED)]
)
def test_a_task_that_fails_a_control_is_withheld_unless_admitted_by_name(control: str, verdict: Verdict) -> None:
    plan = cells("a", ("x", "oracle", "nop"))
    decided = {
        c.spec.cell_id: verdict if c.spec.arm.control == control else EXPECTED_OF_CONTROL[c.spec.arm.control]
        for c in plan
        if c.spec.arm.control
    }
    refused = Schedule(plan, dict(decided))
    assert refused.next() is None
    assert [cell.spec.arm.name for cell in refused.withheld()] == ["x"]
    assert verdict.value in refused.failed_controls()["a"]
    admitted = Schedule(plan, dict(decided), admitted=frozenset("a"))
    assert admitted.withheld() == () and admitted.next() is not None


def test_a_lost_control_withholds_its_task() -> None:
    plan = cells("a", ("x", "oracle"))
    schedule = Schedule(plan, {}, max_retries=0)
    control = schedule.next()
    assert control is not None and control.is_control
    schedule.infra_lost(control)
    assert schedule.next() is None
    assert "infrastructure" in schedule.failed_controls()["a"]


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 2))
def test_every_cell_ends_finished_lost_or_open_whatever_happens(seed: int, workers: int, retries: int) -> None:
    draw = random.Random(seed)
    plan = cells("abcd", ("x", "y", "oracle", "nop"), samples=2)
    schedule = Schedule(plan, {}, admitted=frozenset("abcd"), max_retries=retries)
    running: list[PlannedCell] = []
    for _ in range(10_000):
        while len(running) < workers and (cell := schedule.next()) is not None:
            running.append(cell)
        if not running:
            break
        cell = running.pop(draw.randrange(len(running)))
        {0: schedule.infra_lost, 1: schedule.set_aside}.get(draw.randrange(4), lambda c: finish(schedule, c))(cell)
    assert not running and schedule.next() is None
    aside = schedule.open_cells()
    assert len(schedule.decided) + len(schedule.lost_cells()) + len(aside) == len(plan)


def test_a_cell_that_ended_without_a_verdict_stays_open_but_is_not_started_again_in_this_run() -> None:
    plan = cells("a", ("x", "y"))
    schedule = Schedule(plan, {})
    first = schedule.next()
    assert first is not None
    schedule.set_aside(first)
    assert schedule.next() == plan[1] and schedule.next() is None
    assert schedule.open_cells() == (first,)
