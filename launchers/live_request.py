"""What the live side of a cell is given, and what it hands on to those who work after the seal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cells.attempt import SealedAttempt
from cells.design.cell import CellSpec
from cells.sandbox import Channel, Container, SandboxFactory
from cells.tasks.frozen import LiveTask
from cells.tasks.image import TaskImage
from launchers.gateway.contract import GatewayCell, SessionStatus, SessionTotals
from launchers.layers.layer import Layer


class GatewaySession(Protocol):
    """The open door of one cell to its model."""

    @property
    def socket_dir(self) -> Path:
        """Holds model.sock and nothing else; mounted read-only at /gw."""

    def status(self) -> SessionStatus:
        """What the cell did so far."""

    def close(self) -> SessionTotals:
        """Close the door and every record behind it."""


class Gateway(Protocol):
    """Opens doors; in a study it is the gateway's process."""

    def open_cell(self, cell: GatewayCell) -> GatewaySession:
        """A door for one cell."""


@dataclass(frozen=True)
class LiveRequest:
    """One attempt at one cell. Nothing here leads to a verifier pack."""

    spec: CellSpec
    task: LiveTask
    image: TaskImage
    attempt: str
    """`a001`: the name of the attempt in its cell."""
    stage: Path
    """Where the attempt is built; it does not exist yet."""
    oracle_patch: bytes | None = None
    """The gold patch, for the oracle control only."""
    script: Path | None = None
    """The frozen script of a scripted model."""
    start_files: Mapping[str, bytes] = field(default_factory=dict)
    """Further files of start/ by their whole name, or other bytes for one that would be written anyway."""
    layers: tuple[Layer, ...] = ()
    """The harness's own software, in read-only volumes; at most one today."""


@dataclass(frozen=True)
class LiveTools:
    """What live steps share."""

    sandboxes: SandboxFactory
    gateway: Gateway | None
    stop: threading.Event
    """Set when the study stops: the cell is killed and Interrupted is raised."""
    on_phase: Callable[[str], None]
    """Told `prepare`, `launch`, `run`, `seal`, each as it begins."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Values that may stand in no file, by name: scrubbed from whatever a cell wrote."""
    boundary: str | None = None
    """What holds live readers (`cells.artifacts.seals.BOUNDARIES`); None: what holds them on this machine."""
    versions: Mapping[str, Any] = field(default_factory=dict)
    """Versions of the mechanisms behind `boundary`, for start/SEAL.json."""


@dataclass(frozen=True)
class CollectorHandle:
    """The collector that still holds the volume of a sealed attempt."""

    channel: Channel
    container: Container
    sandboxes: SandboxFactory
    volumes: tuple[str, ...]

    def close(self) -> None:
        """Kill and remove the collector, then the volumes; safe twice."""
        self.container.remove()
        for volume in self.volumes:
            self.sandboxes.remove_volume(volume)


@dataclass(frozen=True)
class LiveResult:
    """A sealed attempt, and the collector whose owner must close it."""

    sealed: SealedAttempt
    collector: CollectorHandle

    def close(self) -> None:
        """Close the collector; safe twice."""
        self.collector.close()
