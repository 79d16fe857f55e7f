"""How the live side of an attempt ended, from everybody's own records, as one pure function.

Rules (20-interface "Outcomes"; 30-evidence D, "Docker faults"):
1. A fault of engine, gateway or provider is InfraFailure whatever the harness made of it; it is never an `Ended` of the
   agent.
2. A limit or a stop that we or the gateway saw comes before what the harness said with its exit code: a harness that
   meets a limit may end politely.
3. An end without the first process's report is a broken sandbox, except where an engine fault or an unexplained kill
   can be the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from cells.errors import InfraFailure
from cells.outcome import Ended
from cells.sandbox import Exit
from launchers.first_process import EndReport
from launchers.gateway.contract import SessionTotals
from launchers.harnesses.protocol import Harness

KILLED = 137


@dataclass(frozen=True)
class Ending:
    """What the watch saw: the report, or how the container ended without one; `killed` when we ended it, and why."""

    report: EndReport | None = None
    exit: Exit | None = None
    killed: tuple[Ended, str] | None = None


def conclude(ending: Ending, totals: SessionTotals | None, harness: Harness) -> tuple[Ended, str]:
    """The ended word and a short detail. InfraFailure when the cell is lost."""
    if ending.report is None and ending.exit is not None and ending.exit.engine_changed:
        raise InfraFailure("engine_lost", "the engine restarted or lost the container while the agent ran")
    if totals is not None and totals.failure is not None:
        raise InfraFailure(totals.failure, totals.failure_detail or "")
    return (
        _stopped(ending, totals)
        or (None if ending.report is not None else _unreported(ending.exit))
        or _reported(ending.report, totals, harness)
    )


def _stopped(ending: Ending, totals: SessionTotals | None) -> tuple[Ended, str] | None:
    if totals is not None and totals.stop_requested:
        return Ended.STOPPED_BY_CONTROLLER, "a detector stopped it"
    if totals is not None and totals.limit_hit is not None:
        return totals.limit_hit, "a request was refused"
    return ending.killed


def _unreported(exit: Exit | None) -> tuple[Ended, str]:
    if exit is None:
        raise InfraFailure("engine_lost", "nothing is known about how the container ended")
    if exit.oom_killed:
        return Ended.SANDBOX_BROKEN, "the kernel killed the first process for memory"
    if exit.code == KILLED:
        raise InfraFailure("killed", "somebody else killed the container: exit 137 that neither we nor memory explain")
    return Ended.SANDBOX_BROKEN, f"the first process ended with {exit.code} and without a report"


def _reported(report: EndReport | None, totals: SessionTotals | None, harness: Harness) -> tuple[Ended, str]:
    if report is None:  # said by _unreported
        raise InfraFailure("engine_lost", "neither a report nor an exit")
    if report.broken is not None:
        return Ended.SANDBOX_BROKEN, report.broken
    ended, detail = harness.ended(report.harness_exit())
    if totals is not None and totals.context_refused:
        return Ended.CONTEXT_LIMIT, f"its last request was too long ({detail})"
    oom_kills = report.counters.get("oom_kills")
    if ended is Ended.HARNESS_ERROR and oom_kills:
        return ended, f"{detail}; the kernel killed {oom_kills:.0f} processes for memory"
    return ended, detail
