"""The flow of a study: one Prefect flow run, two tasks a cell, one worker slot a cell through both.

Rules (60-engines):
1. A slot takes its next cell only when the cell before it is published: at most `workers` cells exist at any moment.
2. Truth lies in bundles and ledger; Prefect orchestrates and shows. Its caching, persistence and retries are off.
3. A stop request starts nothing new; what runs is told by the steps' own stop event.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, cast

from prefect import flow, tags
from prefect.artifacts import create_table_artifact
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from cells.design.matrix import PlannedCell
from cells.outcome import Verdict
from flows.cell import CellRunner, live, post_run, runners
from flows.orphans import mark_orphans, run_tags
from flows.schedule import Schedule

POLL_S = 0.5
"""How often the dispatcher looks at stop and pause requests while it waits for a cell."""


@dataclass(frozen=True)
class Halt:
    """Requests from outside, looked at between cells."""

    stop: threading.Event
    """Running cells are killed, nothing new starts."""
    why: Callable[[], str | None]
    """Why no new cell may start (running ones finish), None when it may."""
    waits: Callable[[], bool]
    """Whether the run waits for that reason to go away, instead of ending."""
    tell: Callable[[str | None], None]
    """Told when the reason changes."""


@dataclass
class _Slot:
    cell: PlannedCell
    phase: str


@dataclass(frozen=True)
class _Measurement:
    """What a flow run measures; it stays in this process: a flow's parameters are sent to the server, and capped."""

    schedule: Schedule
    workers: int
    halt: Halt


_measurements: dict[str, _Measurement] = {}


def measure(run: CellRunner, schedule: Schedule, workers: int, halt: Halt) -> None:
    """Run the schedule's cells. Returns when all are finished, lost or withheld, or when a halt took effect."""
    runners[run.token] = run
    _measurements[run.token] = _Measurement(schedule, workers, halt)
    try:
        runner = cast(TaskRunner[PrefectFuture[Any]], ThreadPoolTaskRunner(max_workers=workers))
        mark_orphans()
        with tags(*run_tags()):
            _measure.with_options(task_runner=runner, flow_run_name=run.study)(run.token)
    finally:
        del runners[run.token], _measurements[run.token]


@flow(name="assay-measure", persist_result=False, validate_parameters=False, log_prints=False)
def _measure(token: str) -> None:
    asked = _measurements[token]
    schedule, workers, halt = asked.schedule, asked.workers, asked.halt
    done: queue.Queue[tuple[_Slot, PrefectFuture[Any]]] = queue.Queue()
    running = 0
    with stop_signals(halt.stop):
        while True:
            while running < workers and (cell := _next(schedule, halt)) is not None:
                _submit(_Slot(cell, "live"), token, done)
                running += 1
            if not running and not _waits(schedule, halt):
                break
            finished = _wait(done)
            if finished is None:
                continue
            slot, future = finished
            error = _error_of(future)
            if slot.phase == "live" and error is None and runners[token].is_sealed(slot.cell):
                _submit(_Slot(slot.cell, "post_run"), token, done)
            else:
                running -= 1
                _settle(schedule, runners[token], slot, error)
        create_table_artifact(table=runners[token].result_rows(), key="assay-results", description=runners[token].study)


def _next(schedule: Schedule, halt: Halt) -> PlannedCell | None:
    reason = halt.why()
    halt.tell(reason)
    if halt.stop.is_set() or reason is not None:
        return None
    return schedule.next()


def _waits(schedule: Schedule, halt: Halt) -> bool:
    return bool(schedule.open_cells()) and halt.waits() and not halt.stop.is_set()


def _submit(slot: _Slot, token: str, done: queue.Queue[tuple[_Slot, PrefectFuture[Any]]]) -> None:
    step = live if slot.phase == "live" else post_run
    name = f"{slot.phase} {slot.cell.spec.directory}"
    future = step.with_options(task_run_name=name).submit(token, slot.cell.spec.cell_id)
    future.add_done_callback(lambda ended: done.put((slot, ended)))


def _wait(done: queue.Queue[tuple[_Slot, PrefectFuture[Any]]]) -> tuple[_Slot, PrefectFuture[Any]] | None:
    try:
        return done.get(timeout=POLL_S)
    except queue.Empty:
        return None


def _error_of(future: PrefectFuture[Any]) -> Exception | None:
    """What the step raised; a cancelled or crashed step has raised too."""
    try:
        future.result()
    except Exception as error:  # noqa: BLE001 (whatever it was, it is reported and the cell stays open)
        return error
    return None


def _settle(schedule: Schedule, run: CellRunner, slot: _Slot, error: Exception | None) -> None:
    """Tell the schedule what became of a cell; what is not known to be accepted is lost or open, never a score."""
    if error is not None:
        run.failed(slot.cell, error)
    verdict = run.take_verdict(slot.cell)
    if verdict is None:
        schedule.set_aside(slot.cell)
    elif verdict is Verdict.NOT_RUN:
        schedule.infra_lost(slot.cell)
    else:
        schedule.finished(slot.cell, verdict)


@contextmanager
def stop_signals(stop: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set the stop event while the body runs; Prefect's own handlers come back afterwards."""

    def handler(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
