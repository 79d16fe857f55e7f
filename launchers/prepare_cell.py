"""Everything of a live cell that exists before its agent starts: volumes, collector, door to the model, container.

Rules:
1. The collector is started first, since the content of a volume in memory is gone at its last unmount (30-evidence C4).
2. start/SEAL.json stands before anything of the agent runs.
3. Whatever is made is put on the clean-up stack at once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cells.attempt import LiveAttempt
from cells.errors import InfraFailure
from cells.sandbox import AGENT_UID, Channel, Container, ContainerSpec
from launchers import mounts
from launchers.detectors.watcher import boundary_of
from launchers.environment import orders_of
from launchers.first_process import Orders
from launchers.gateway.contract import GatewayCell, SessionTotals
from launchers.harness_log import HarnessLog
from launchers.harnesses.protocol import Harness
from launchers.harnesses.registry import harness as harness_named
from launchers.labels import this_process
from launchers.live_request import GatewaySession, LiveRequest, LiveTools
from launchers.noise_sampler import NoiseSampler
from launchers.start_files import StartFacts, run_start_provenance, write_start


class Door:
    """The cell's way to its model; closed once, asked for its totals as often as wanted. Without a model: no door."""

    def __init__(self, session: GatewaySession | None) -> None:
        self.session = session
        self._open = session is not None
        self._totals: SessionTotals | None = None

    def close(self) -> SessionTotals | None:
        """Close it and all its records; what the cell used, None without a model or when the gateway was lost.

        InfraFailure the first time that a lost gateway is asked.
        """
        if self._open and self.session is not None:
            self._open = False
            self._totals = self.session.close()
        return self._totals


@dataclass(frozen=True)
class Running:
    """A container and the channel to its first process."""

    container: Container
    channel: Channel


@dataclass(frozen=True)
class Prepared:
    """A cell that is ready to start. `started` is the attempt's zero on time.monotonic()."""

    request: LiveRequest
    tools: LiveTools
    harness: Harness
    engine: Mapping[str, Any]
    started: float
    attempt: LiveAttempt
    volumes: mounts.CellVolumes
    collector: Running
    door: Door
    agent: Running
    orders: Orders
    log: HarnessLog
    sampler: NoiseSampler


def prepare(request: LiveRequest, tools: LiveTools, cleanup: ExitStack) -> Prepared:
    """Make it all. Raises InfraFailure, and whatever a wrong request raises; the stack removes what was made."""
    started, engine = time.monotonic(), tools.sandboxes.engine_identity()
    harness = harness_named(request.spec.arm.harness)
    orders = orders_of(request, harness)
    attempt = LiveAttempt.create(request.stage)
    volumes = _volumes(request, tools, harness, cleanup)
    collector = _create(mounts.collector_spec(request, volumes), tools, cleanup)
    collector.container.start()
    door = Door(_open_gateway(request, tools, engine, started))
    remove_later(cleanup, door.close)
    spec = mounts.agent_spec(request, volumes, None if door.session is None else door.session.socket_dir)
    agent = _create(spec, tools, cleanup)
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    owner = this_process().label()
    write_start(attempt, StartFacts(request, harness, orders, spec, agent.container.id, engine, owner, at))
    boundary, versions = (
        boundary_of(request.spec.arm.detectors) if tools.boundary is None else (tools.boundary, dict(tools.versions))
    )
    attempt.seal_start(boundary, versions)
    log = HarnessLog(attempt, tools.secrets)
    cleanup.callback(log.close)
    sampler = NoiseSampler(attempt, started, agent.container.counters)
    return Prepared(
        request, tools, harness, engine, started, attempt, volumes, collector, door, agent, orders, log, sampler
    )


def remove_later(cleanup: ExitStack, remove: Callable[[], object]) -> None:
    """Put a removal on the stack that does not hide why the stack unwinds: what it cannot remove, the reaper finds."""

    def quietly() -> None:
        with contextlib.suppress(InfraFailure):
            remove()

    cleanup.callback(quietly)


def _volumes(request: LiveRequest, tools: LiveTools, harness: Harness, cleanup: ExitStack) -> mounts.CellVolumes:
    limits, owner = request.spec.limits, mounts.owner_of(request, "agent")
    work = tools.sandboxes.create_volume(owner, mounts.container_limits(limits, records=False))
    remove_later(cleanup, lambda: tools.sandboxes.remove_volume(work))
    if not harness.keeps_records:
        return mounts.CellVolumes(work, None)
    records = tools.sandboxes.create_volume(owner, mounts.records_limits(limits))
    remove_later(cleanup, lambda: tools.sandboxes.remove_volume(records))
    return mounts.CellVolumes(work, records)


def _create(spec: ContainerSpec, tools: LiveTools, cleanup: ExitStack) -> Running:
    container = tools.sandboxes.create(spec)
    remove_later(cleanup, container.remove)
    return Running(container, container.attach())


def _open_gateway(
    request: LiveRequest, tools: LiveTools, engine: Mapping[str, Any], started: float
) -> GatewaySession | None:
    arm = request.spec.arm
    if arm.model is None:
        return None
    if tools.gateway is None:
        raise InfraFailure("gateway_lost", f"the arm has the model {arm.model.get('name')!r}; no gateway runs")
    return tools.gateway.open_cell(
        GatewayCell(
            key=f"{request.spec.directory}--{request.attempt}",
            attempt_root=request.stage,
            model=arm.model,
            limits=request.spec.limits,
            input_limit=arm.input_limit,
            script=request.script,
            detectors=arm.detectors,
            peer_uid=AGENT_UID + int(engine.get("uid_offset") or 0),
            started_mono=started,
            provenance=run_start_provenance(request, engine),
        )
    )
