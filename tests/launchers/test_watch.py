"""The watch over a running agent: clocks, limits, stops and losses, with a clock that the test moves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cells.attempt import LiveAttempt
from cells.design.cell import CellLimits
from cells.errors import InfraFailure, Interrupted
from cells.outcome import Ended
from cells.sandbox import ChannelTimeout, ContainerSpec, Exit, Frame, Limits, Owner
from launchers.gateway.contract import SessionStatus, SessionTotals
from launchers.harness_log import HarnessLog
from launchers.noise_sampler import NoiseSampler
from launchers.scripted_sandbox import Replies, ScriptedContainer, ScriptedSandboxes
from launchers.watch import LAUNCH_S, LIMIT_GRACE_S, WAITING_CEILING_S, RunningCell, Watch

LIMITS = CellLimits("wall", 100.0, None, None, None, None, 64, 1.0, 8, "memory", 16, 10.0)
READY = Frame({"type": "ready", "entries": 3, "copy_s": 0.1, "protected": True})
STATUS = SessionStatus(0, 0, 0, 0, Decimal(0), 0.0, 0.0, 0, None, None, None, None, False, False, None)


def ended(**changes: Any) -> Frame:
    report: dict[str, Any] = {
        "exit_code": 0,
        "signal": None,
        "broken": None,
        "usage": {},
        "left_processes": 0,
        "output": {},
        "counters": {},
        "disk": {},
        "wall_s": 1.0,
    }
    return Frame({"type": "ended"}, json.dumps(report | changes).encode())


def exited(code: int, *, engine_changed: bool = False) -> Exit:
    return Exit(code, oom_killed=False, killed_by_us=None, engine_changed=engine_changed, stderr=b"words")


@dataclass
class Session:
    """A gateway's session whose status the test sets."""

    now: SessionStatus = STATUS
    socket_dir: Path = Path("/gw")

    def status(self) -> SessionStatus:
        return self.now

    def close(self) -> SessionTotals:
        raise NotImplementedError("the watch does not close it")


@dataclass
class Time:
    """Moves on by `step` seconds whenever somebody looks; `then` happens at its moment."""

    now: float = 1000.0
    step: float = 0.05
    then: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def __call__(self) -> float:
        self.now += self.step
        while self.then and self.then[0][0] <= self.now - 1000.0:
            self.then.pop(0)[1]()
        return self.now


@dataclass
class Stage:
    """A started container and everything that the watch needs."""

    container: ScriptedContainer
    session: Session
    time: Time
    stop: threading.Event
    root: Path
    watch: Watch


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A watched container that opens with the marked frames; `limits` by another mark."""
    opening = getattr(request, "param", (READY,))
    yield build(tmp_path, opening, LIMITS)


def build(tmp_path: Path, opening: tuple[Frame | Exit, ...], limits: CellLimits) -> Stage:
    sandboxes = ScriptedSandboxes({"agent": lambda: Replies(opening)})
    owner = Owner("s", "c", "a001", "agent", 60)
    container = sandboxes.create(ContainerSpec(owner, "image", ("init",), Limits()))
    attempt = LiveAttempt.create(tmp_path / "attempt")
    session, time, stop = Session(), Time(), threading.Event()
    log = HarnessLog(attempt, {})
    sampler = NoiseSampler(attempt, time.now, container.counters, time)
    cell = RunningCell(container, container.attach(), limits, session, stop, log, sampler)
    container.start()
    return Stage(container, session, time, stop, tmp_path / "attempt/live", Watch(cell, time))


def after(stage: Stage, seconds: float, what: Callable[[], None]) -> None:
    stage.time.then.append((seconds, what))


def says(stage: Stage, **changes: Any) -> None:
    stage.session.now = replace(stage.session.now, **changes)


def test_a_harness_that_ends_is_reported_with_what_it_printed(tmp_path: Path) -> None:
    output = Frame({"type": "output", "stream": "stdout"}, b"hello\n")
    stage = build(tmp_path, (READY, output, ended(exit_code=3), exited(0)), LIMITS)
    stage.watch.await_ready()
    ending = stage.watch.to_end()
    assert ending.report is not None and ending.report.exit_code == 3 and ending.killed is None
    assert (stage.root / "harness.stdout.log").read_bytes() == b"hello\n"
    assert stage.watch.copied == {"entries": 3, "copy_s": 0.1, "protected": True}


def test_the_wall_limit_kills(stage: Stage) -> None:
    stage.watch.await_ready()
    ending = stage.watch.to_end()
    assert ending.killed is not None and ending.killed[0] is Ended.WALL_LIMIT
    assert ending.exit is not None and ending.exit.killed_by_us == "wall_limit"
    assert 100.0 <= stage.watch.run_s < 102.0


def test_the_clock_starts_when_the_harness_does(tmp_path: Path) -> None:
    stage = build(tmp_path, (), LIMITS)
    after(stage, 90.0, lambda: stage.container._take([READY]))
    stage.watch.await_ready()
    stage.watch.to_end()
    assert 100.0 <= stage.watch.run_s < 102.0


def test_waiting_for_the_provider_does_not_count_on_an_active_clock(tmp_path: Path) -> None:
    stage = build(tmp_path, (READY,), replace(LIMITS, clock="active"))
    says(stage, waiting_s=50.0)
    stage.watch.await_ready()
    ending = stage.watch.to_end()
    assert ending.killed is not None and ending.killed[0] is Ended.WALL_LIMIT
    assert 150.0 <= stage.watch.run_s < 152.0 and stage.watch.waited_s == 50.0


def test_even_an_active_clock_does_not_wait_for_ever(tmp_path: Path) -> None:
    stage = build(tmp_path, (READY,), replace(LIMITS, clock="active"))
    stage.watch.await_ready()
    after(stage, 10.0, lambda: says(stage, waiting_s=WAITING_CEILING_S))
    ending = stage.watch.to_end()
    assert ending.killed is not None and "waiting for the provider" in ending.killed[1]


def test_a_harness_that_met_a_limit_may_end_by_itself(stage: Stage) -> None:
    stage.watch.await_ready()
    after(stage, 5.0, lambda: says(stage, limit_hit=Ended.TURN_LIMIT))
    after(stage, 9.0, lambda: stage.container._take([ended(), exited(0)]))
    assert stage.watch.to_end().report is not None


def test_a_harness_that_goes_on_after_a_limit_is_killed_for_it(stage: Stage) -> None:
    stage.watch.await_ready()
    after(stage, 5.0, lambda: says(stage, limit_hit=Ended.COST_LIMIT, limit_detail="0.51 of 0.50"))
    ending = stage.watch.to_end()
    assert ending.killed == (Ended.COST_LIMIT, "0.51 of 0.50")
    assert 5.0 + LIMIT_GRACE_S <= stage.watch.run_s < 7.0 + LIMIT_GRACE_S


def test_a_controller_stops_at_once(stage: Stage) -> None:
    stage.watch.await_ready()
    after(stage, 5.0, lambda: says(stage, stop_requested=True))
    ending = stage.watch.to_end()
    assert ending.killed is not None and ending.killed[0] is Ended.STOPPED_BY_CONTROLLER
    assert stage.watch.run_s < 7.0


def test_a_failure_behind_the_gateway_loses_the_cell(stage: Stage) -> None:
    stage.watch.await_ready()
    after(stage, 5.0, lambda: says(stage, failure="script_exhausted", failure_detail="row 4"))
    with pytest.raises(InfraFailure, match="script_exhausted: row 4"):
        stage.watch.to_end()


@pytest.mark.parametrize("stage", [(), (READY,)], indirect=True, ids=["at launch", "in the run"])
def test_a_stop_of_the_study_interrupts(stage: Stage) -> None:
    after(stage, 2.0, stage.stop.set)
    with pytest.raises(Interrupted):
        stage.watch.await_ready()
        stage.watch.to_end()


@pytest.mark.parametrize("stage", [()], indirect=True)
def test_a_first_process_that_never_gets_ready_is_our_fault(stage: Stage) -> None:
    with pytest.raises(InfraFailure, match="launch: .*not ready") as caught:
        stage.watch.await_ready()
    assert caught.value.reason == "launch" and stage.time.now - 1000.0 >= LAUNCH_S


@pytest.mark.parametrize(
    ("opening", "reason"),
    [
        ((Frame({"type": "failed", "reason": "launch", "detail": "ENOSPC"}), exited(4)), "launch"),
        ((exited(1),), "launch"),
        ((exited(137, engine_changed=True),), "engine_lost"),
        ((READY, Frame({"type": "failed", "reason": "launch", "detail": "x"})), "launch"),
        ((READY, Frame({"type": "sing"})), "bad_frame"),
        ((READY, Frame({"type": "ended"}, b"{}")), "bad_frame"),
        ((READY, Frame({"type": "ended"}, b'{"exit_code": "0"}')), "bad_frame"),
    ],
)
def test_what_only_we_can_have_done_wrong_loses_the_cell(
    tmp_path: Path, opening: tuple[Frame | Exit, ...], reason: str
) -> None:
    stage = build(tmp_path, opening, LIMITS)
    with pytest.raises(InfraFailure) as caught:
        stage.watch.await_ready()
        stage.watch.to_end()
    assert caught.value.reason == reason


@pytest.mark.parametrize("stage", [(READY, exited(1))], indirect=True)
def test_an_end_without_a_report_is_handed_on_as_that(stage: Stage) -> None:
    stage.watch.await_ready()
    ending = stage.watch.to_end()
    assert ending.report is None and ending.exit is not None and ending.exit.code == 1


def test_a_channel_that_breaks_while_the_container_runs_loses_the_cell(stage: Stage) -> None:
    stage.watch.await_ready()
    after(stage, 5.0, stage.container.close)
    with pytest.raises(InfraFailure, match="engine_lost"):
        stage.watch.to_end()


def test_the_machine_is_sampled_once_a_second(stage: Stage) -> None:
    stage.watch.await_ready()
    after(stage, 20.0, lambda: says(stage, stop_requested=True))
    stage.watch.to_end()
    rows = [json.loads(line) for line in (stage.root / "noise.jsonl").read_text().splitlines()]
    moments = [row["t_mono_s"] for row in rows]
    assert 15 <= len(rows) <= 21
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(moments))
    assert {row["source"] for row in rows} == {"host"} and rows[0]["host"]["cores"] >= 1


def test_a_scripted_container_says_nothing_more_than_its_script(stage: Stage) -> None:
    assert stage.container.receive(0.0, 10).type == "ready"
    with pytest.raises(ChannelTimeout):
        stage.container.receive(0.0, 10)
