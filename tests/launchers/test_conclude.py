"""How a live side ended, from everybody's records: who is believed when they differ."""

from __future__ import annotations

from typing import Any

import pytest

from cells.errors import InfraFailure
from cells.outcome import Ended
from cells.sandbox import Exit
from launchers.conclude import Ending, conclude
from launchers.first_process import EndReport
from launchers.gateway.contract import SessionTotals
from launchers.harnesses import harness

COMMAND = harness("command")
NOTHING: dict[str, Any] = dict.fromkeys(SessionTotals.__dataclass_fields__)


def report(**changes: Any) -> EndReport:
    fields: dict[str, Any] = {
        "exit_code": 0,
        "signal": None,
        "broken": None,
        "usage": {},
        "left_processes": 0,
        "output": {},
        "counters": {"oom_kills": 0},
        "disk": {},
        "wall_s": 1.0,
    }
    return EndReport(**(fields | changes))


def totals(**changes: Any) -> SessionTotals:
    return SessionTotals(**(NOTHING | {"stop_requested": False, "context_refused": False} | changes))


def exit(code: int, *, oom: bool = False, by_us: str | None = None, changed: bool = False) -> Exit:
    return Exit(code, oom_killed=oom, killed_by_us=by_us, engine_changed=changed)


@pytest.mark.parametrize(
    ("ending", "used", "expected"),
    [
        (Ending(report()), None, Ended.COMPLETED),
        (Ending(report(exit_code=2)), None, Ended.HARNESS_ERROR),
        (Ending(report(exit_code=None, signal=9)), totals(), Ended.HARNESS_ERROR),
        (Ending(report(broken="guard_killed")), None, Ended.SANDBOX_BROKEN),
        (Ending(report(broken="guard_killed", exit_code=0)), totals(), Ended.SANDBOX_BROKEN),
        (Ending(report(), exit(0, changed=True)), None, Ended.COMPLETED),
        (Ending(exit=exit(1)), None, Ended.SANDBOX_BROKEN),
        (Ending(exit=exit(0)), None, Ended.SANDBOX_BROKEN),
        (Ending(exit=exit(137, oom=True)), None, Ended.SANDBOX_BROKEN),
        (Ending(exit=exit(137, by_us="wall_limit"), killed=(Ended.WALL_LIMIT, "")), None, Ended.WALL_LIMIT),
        (Ending(report(exit_code=0)), totals(limit_hit=Ended.TURN_LIMIT), Ended.TURN_LIMIT),
        (Ending(report(exit_code=1)), totals(limit_hit=Ended.COST_LIMIT), Ended.COST_LIMIT),
        (Ending(report()), totals(stop_requested=True), Ended.STOPPED_BY_CONTROLLER),
        (Ending(report()), totals(context_refused=True), Ended.CONTEXT_LIMIT),
        (Ending(report(exit_code=1)), totals(context_refused=True), Ended.CONTEXT_LIMIT),
    ],
)
def test_the_record_that_is_believed(ending: Ending, used: SessionTotals | None, expected: Ended) -> None:
    assert conclude(ending, used, COMMAND)[0] is expected


@pytest.mark.parametrize(
    ("ending", "used", "reason"),
    [
        (Ending(exit=exit(137)), None, "killed"),
        (Ending(exit=exit(137, changed=True)), None, "engine_lost"),
        (Ending(exit=exit(0, changed=True)), None, "engine_lost"),
        (Ending(exit=exit(137, by_us="x", changed=True), killed=(Ended.WALL_LIMIT, "")), None, "engine_lost"),
        (Ending(), None, "engine_lost"),
        (Ending(report()), totals(failure="script_exhausted"), "script_exhausted"),
        (Ending(report(exit_code=1)), totals(failure="provider_down", limit_hit=Ended.TURN_LIMIT), "provider_down"),
    ],
)
def test_a_fault_of_ours_is_never_an_outcome_of_the_agent(
    ending: Ending, used: SessionTotals | None, reason: str
) -> None:
    with pytest.raises(InfraFailure) as caught:
        conclude(ending, used, COMMAND)
    assert caught.value.reason == reason


def test_an_error_after_a_kill_for_memory_says_so() -> None:
    killed = report(exit_code=None, signal=9, counters={"oom_kills": 2})
    assert conclude(Ending(killed), None, COMMAND) == (
        Ended.HARNESS_ERROR,
        "signal 9; the kernel killed 2 processes for memory",
    )
