"""Watches a started agent container to its end: output, clock, gateway, stop requests; ends it when a limit says so.

Rules:
1. The deadline lives here: every wait is short, since nothing outside interrupts it (60-engines).
2. The cell's clock starts when its first process says `ready`; with `clock = "active"` the time in which the gateway
   waited for the provider does not count, up to a ceiling.
3. A harness that met a limit has a short time to end by itself and write its record; then it is killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from cells.design.cell import CellLimits
from cells.errors import InfraFailure, Interrupted
from cells.outcome import Ended
from cells.sandbox import Channel, ChannelClosed, ChannelTimeout, Container, Frame
from launchers.conclude import Ending
from launchers.first_process import MAX_BODY, EndReport, read_end, refuse_failure
from launchers.harness_log import HarnessLog
from launchers.live_request import GatewaySession
from launchers.noise_sampler import NoiseSampler

LAUNCH_S = 120.0
"""How long the first process may take to copy the base tree and say `ready`."""
LIMIT_GRACE_S = 10.0
WAITING_CEILING_S = 4 * 3600.0
"""How long a cell with an active clock may wait for its provider in all."""
_TICK_S = 0.25
_EXIT_S = 15.0


@dataclass(frozen=True)
class RunningCell:
    """A started agent container and everything that watches it."""

    container: Container
    channel: Channel
    limits: CellLimits
    session: GatewaySession | None
    stop: threading.Event
    log: HarnessLog
    sampler: NoiseSampler


class Watch:
    """One watch over one cell."""

    def __init__(self, cell: RunningCell, clock: Callable[[], float] = time.monotonic) -> None:
        self._cell, self._clock = cell, clock
        self._began = self._ended = clock()
        self._waited = 0.0
        self._limit_seen: tuple[Ended, float] | None = None
        self.copied: dict[str, float | int | bool] = {}
        """What the first process said of its preparations."""

    @property
    def run_s(self) -> float:
        """Seconds from `ready` to the end."""
        return self._ended - self._began

    @property
    def waited_s(self) -> float:
        """Seconds of it that the gateway waited for the provider."""
        return self._waited

    def await_ready(self) -> None:
        """Until the harness is about to start. InfraFailure("launch") when it never is, Interrupted on stop."""
        deadline = self._clock() + LAUNCH_S
        while True:
            self._refuse_stop()
            if self._clock() >= deadline:
                raise InfraFailure("launch", f"the first process was not ready after {LAUNCH_S:.0f} s")
            try:
                frame = self._cell.channel.receive(min(deadline, self._clock() + _TICK_S), MAX_BODY)
            except ChannelTimeout:
                continue
            except ChannelClosed as closed:
                raise self._early_end() from closed
            refuse_failure(frame)
            if frame.type == "ready":
                self.copied = {name: frame.header[name] for name in ("entries", "copy_s", "protected")}
                self._began = self._clock()
                return

    def to_end(self) -> Ending:
        """Until the harness ends, or is ended. InfraFailure for faults of gateway or engine, Interrupted on stop."""
        try:
            return self._to_end()
        finally:
            self._ended = self._clock()

    def _to_end(self) -> Ending:
        next_look = self._clock()
        while True:
            if self._clock() >= next_look:
                self._refuse_stop()
                self._cell.sampler.sample_if_due()
                if (over := self._over()) is not None:
                    return self._kill(*over)
                next_look = self._clock() + _TICK_S
            try:
                frame = self._cell.channel.receive(next_look, MAX_BODY)
            except ChannelTimeout:
                continue
            except ChannelClosed:
                return self._vanished()
            if (report := self._take(frame)) is not None:
                return Ending(report=report, exit=self._cell.container.wait(time.monotonic() + _EXIT_S))

    def _take(self, frame: Frame) -> EndReport | None:
        refuse_failure(frame)
        if frame.type == "output":
            self._cell.log.take(str(frame.header.get("stream")), frame.body, end=bool(frame.header.get("end")))
            return None
        if frame.type == "ended":
            return read_end(frame)
        raise InfraFailure("bad_frame", f"the first process said {frame.type!r}")

    def _over(self) -> tuple[Ended, str] | None:
        now = self._clock()
        over = self._gateway_says(now)
        if over is not None:
            return over
        limits, used = self._cell.limits, now - self._began
        counted = used - (self._waited if limits.clock == "active" else 0.0)
        if counted >= limits.wall_s:
            return Ended.WALL_LIMIT, f"{counted:.1f} s of {limits.wall_s:g} s ({limits.clock} clock)"
        if self._waited >= WAITING_CEILING_S:
            return Ended.WALL_LIMIT, f"{self._waited:.0f} s of waiting for the provider"
        return None

    def _gateway_says(self, now: float) -> tuple[Ended, str] | None:
        if self._cell.session is None:
            return None
        status = self._cell.session.status()
        self._waited = status.waiting_s
        if status.failure is not None:
            raise InfraFailure(status.failure, status.failure_detail or "")
        if status.stop_requested:
            return Ended.STOPPED_BY_CONTROLLER, "a detector stopped it"
        if status.limit_hit is None:
            return None
        limit, since = self._limit_seen = self._limit_seen or (status.limit_hit, now)
        return (limit, status.limit_detail or "a request was refused") if now - since >= LIMIT_GRACE_S else None

    def _kill(self, ended: Ended, detail: str) -> Ending:
        return Ending(exit=self._cell.container.kill(ended.value), killed=(ended, detail))

    def _vanished(self) -> Ending:
        exit = self._cell.container.wait(time.monotonic() + _EXIT_S)
        if exit is None:
            self._cell.container.kill("channel_lost")
            raise InfraFailure("engine_lost", "the channel to the container broke while it ran")
        return Ending(exit=exit)

    def _early_end(self) -> InfraFailure:
        exit = self._cell.container.wait(time.monotonic() + _EXIT_S)
        if exit is None:
            return InfraFailure("engine_lost", "the channel to the container broke before it was ready")
        reason = "engine_lost" if exit.engine_changed else "launch"
        words = exit.stderr.decode("utf-8", "replace").strip()[-1000:]
        return InfraFailure(reason, f"the first process ended with {exit.code} before it was ready: {words}")

    def _refuse_stop(self) -> None:
        if self._cell.stop.is_set():
            raise Interrupted("the study was stopped while this cell ran; run it again to go on")
