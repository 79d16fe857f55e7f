"""The watcher that the gateway opens for a cell with detectors: its controller, and the child inside what holds it.

Rules:
1. Without a mechanism that its probe proves there is no watcher: EnvironmentFault, before the cell starts.
2. The gateway's deadline is for a whole turn; a child has its own, shorter one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cells.artifacts.live_readers import arm_detectors
from cells.attempt import LiveAttempt
from cells.errors import EnvironmentFault
from cells.sandbox import Owner
from launchers.detectors.child_process import DetectorChild
from launchers.detectors.choice import find_mechanism
from launchers.detectors.controller import Controller
from launchers.detectors.mechanism import Mechanism
from launchers.detectors.records import Moment
from launchers.gateway.decisions import CompletedTurn, Decision, SessionFacts
from launchers.labels import labels_of, this_process

_CHILD_LIFE_S = 24 * 3600.0


@lru_cache(maxsize=1)
def wall_of_this_machine() -> Mechanism:
    """What holds detector children here, found once a process: bubblewrap, else a container, else another user."""
    try:
        return find_mechanism(("bwrap",))
    except EnvironmentFault:
        return find_mechanism(image=_container_image(), labels=_labels())


def boundary_of(detectors: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and versions for `LiveAttempt.seal_start`: what holds the live readers of a cell.

    EnvironmentFault when the cell has detectors and nothing holds them; without any, `none` is an honest answer.
    """
    try:
        wall = wall_of_this_machine()
    except EnvironmentFault:
        if detectors:
            raise
        return "none", {"live_readers": 0}
    return wall.name, {**wall.versions, "live_readers": len(detectors)}


@dataclass
class DetectorWatcher:
    """A `TurnWatcher`: knows where the trace stands, and hands each turn to the controller."""

    controller: Controller
    started_mono: float
    _segment: int = field(default=1)

    async def on_turn_complete(self, turn: CompletedTurn) -> Decision:
        """The decision about a turn."""
        self._segment = next((row["segment"] for row in reversed(turn.rows) if row.get("segment")), self._segment)
        since_start = time.monotonic() - self.started_mono
        moment = Moment(turn.turn, self._segment, turn.prefix_length, turn.prefix_sha256, since_start)
        return await self.controller.decide(moment, turn.rows)

    async def close(self) -> None:
        """The session ends: so does the child."""
        await self.controller.close()


async def open_watcher(facts: SessionFacts) -> DetectorWatcher:
    """The watcher of a cell. UsageError for wrong detectors, EnvironmentFault when nothing can hold them."""
    arm = arm_detectors(facts.detectors)
    wall = wall_of_this_machine()

    async def start(first_line: Mapping[str, Any]) -> DetectorChild:
        return await DetectorChild.start(wall, first_line)

    controller = Controller(LiveAttempt(facts.attempt_root), arm, start, facts.ask)
    await controller.start()
    return DetectorWatcher(controller, facts.started_mono)


def _container_image() -> str:
    """The base image, where an engine answers; empty otherwise. The SDK is loaded only on machines that need it."""
    from launchers.engine import Engine
    from launchers.images import open_base_image

    try:
        return open_base_image(Engine.connect()).image_id
    except EnvironmentFault:
        return ""


def _labels() -> dict[str, str]:
    owner = Owner("-", "-", "-", "detector", _CHILD_LIFE_S)
    return labels_of(owner, this_process(), time.time())
