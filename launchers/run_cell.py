"""The live side of one cell, prepare to seal, as a story (10-architecture, "One cell, as a story").

Rules:
1. How it ended is concluded from our own records; a fault of ours or the engine's is InfraFailure, never an `Ended`.
2. The agent is killed, waited for and removed before anything is gathered; every writer has closed before the seal.
3. Whatever happens, everything that was created is removed, but for the collector of a sealed attempt.
4. An attempt that is lost after its start is sealed as `infra_lost`, so that it can be published as what it is.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cells.errors import AssayError, InfraFailure
from cells.outcome import Ended
from cells.sandbox import ChannelClosed, ChannelTimeout
from launchers.conclude import Ending, conclude
from launchers.cross_check import compare
from launchers.first_process import send_orders
from launchers.gateway.contract import SessionTotals
from launchers.gathering import gather, reader_of_record
from launchers.live_request import CollectorHandle, Gateway, GatewaySession, LiveRequest, LiveResult, LiveTools
from launchers.prepare_cell import Prepared, prepare
from launchers.seal_cell import Conclusion, close_records, findings_of, seal_live, trace_rows
from launchers.watch import RunningCell, Watch

__all__ = [
    "CollectorHandle",
    "Gateway",
    "GatewaySession",
    "LiveRequest",
    "LiveResult",
    "LiveTools",
    "run_live",
]


def run_live(request: LiveRequest, tools: LiveTools) -> LiveResult:
    """Run one attempt to its seal.

    Raises InfraFailure when the cell is lost and Interrupted when the study stops; then nothing of the cell is left on
    the engine. The collector of the result belongs to the caller, who closes it.
    """
    phases = Phases(tools.on_phase)
    with ExitStack() as cleanup:
        phases.enter("prepare")
        cell = prepare(request, tools, cleanup)
        watch = _watch_over(cell)
        try:
            phases.enter("launch")
            launch(cell, watch)
            phases.enter("run")
            ending = watch.to_end()
            phases.enter("seal")
            stop(cell, ending)
            totals = close_records(cell)
            ended, detail = conclude(ending, totals, cell.harness)
            findings = [*findings_of(ending), *_gather(cell)]
            seconds = timings(phases, watch, totals)
            sealed = seal_live(cell, Conclusion(ended, detail, ending, seconds), findings)
        except InfraFailure as failure:
            seal_lost(cell, failure, timings(phases, watch, None))
            raise
        cleanup.pop_all()
    collector = CollectorHandle(cell.collector.channel, cell.collector.container, tools.sandboxes, cell.volumes.names())
    return LiveResult(sealed, collector)


def launch(cell: Prepared, watch: Watch) -> None:
    """Start the agent's container and hand it its orders, until the harness is about to run."""
    cell.agent.container.start()
    with _launch_faults():
        send_orders(cell.agent.channel, cell.orders)
    watch.await_ready()


def stop(cell: Prepared, ending: Ending) -> None:
    """The agent's container goes, whatever state it is in; its last counters are kept."""
    if ending.report is not None:
        cell.sampler.sample("cell", ending.report.counters, {"disk": ending.report.disk})
    cell.agent.container.remove()
    cell.log.close()


def seal_lost(cell: Prepared, failure: InfraFailure, seconds: dict[str, float | None]) -> None:
    """Seal a lost attempt as what it is, as far as its records can still be closed; the failure itself is raised on."""
    with contextlib.suppress(AssayError):
        cell.agent.container.remove()
    with contextlib.suppress(AssayError):
        close_records(cell)
    with contextlib.suppress(AssayError, OSError, ValueError):
        cell.log.close()
        seal_live(cell, Conclusion(Ended.INFRA_LOST, str(failure), Ending(), seconds), [])


def timings(phases: Phases, watch: Watch, totals: SessionTotals | None) -> dict[str, float | None]:
    """Seconds by phase so far, and of the run: in all, without the provider's waiting, the waiting, the base copy."""
    waited_s = watch.waited_s if totals is None else totals.waiting_s
    return {
        **phases.so_far(),
        "run_s": watch.run_s,
        "active_s": max(0.0, watch.run_s - waited_s),
        "waited_s": waited_s,
        "copy_s": watch.copied.get("copy_s"),
    }


class Phases:
    """Seconds by phase; entering one ends the one before it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._began: list[tuple[str, float]] = []

    def enter(self, name: str) -> None:
        """A phase begins."""
        self._began.append((name, time.monotonic()))
        self._tell(name)

    def so_far(self) -> dict[str, float]:
        """Seconds of every phase, the present one up to now."""
        ends = [moment for _, moment in self._began[1:]] + [time.monotonic()]
        return {name: round(end - began, 6) for (name, began), end in zip(self._began, ends, strict=True)}


def _watch_over(cell: Prepared) -> Watch:
    return Watch(
        RunningCell(
            container=cell.agent.container,
            channel=cell.agent.channel,
            limits=cell.request.spec.limits,
            session=cell.door.session,
            stop=cell.tools.stop,
            log=cell.log,
            sampler=cell.sampler,
        )
    )


def _gather(cell: Prepared) -> list[dict[str, Any]]:
    wanted = cell.harness.gathers(cell.request.spec.arm.settings)
    findings = gather(cell.collector.channel, cell.attempt, wanted, cell.tools.secrets)
    if cell.door.session is None or not cell.harness.keeps_records:
        return findings
    return findings + compare(cell.harness.claims(reader_of_record(cell.attempt)), trace_rows(cell))


@contextmanager
def _launch_faults() -> Iterator[None]:
    try:
        yield
    except (ChannelClosed, ChannelTimeout) as error:
        raise InfraFailure("launch", f"the first process does not take its orders: {error}") from error
