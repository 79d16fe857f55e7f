"""What a sandbox is to both sides of the seal: specifications and protocols; launchers implement them, scoring is
handed them.

Rules:
1. Every container is hardened: no network, no capability unless listed here, no new privileges, read-only root, private
   IPC,
   limits on memory, CPU, pids, files; our labels on it (30-evidence C1).
2. Everything that leaves a container leaves through its stdout, framed, capped in bytes and time (`Channel`).
3. A container is killed, waited for and removed by whoever created it; what a dead owner left is found by its labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

AGENT_UID = 65532
"""uid and gid of everything that an agent runs."""
VERIFIER_UID = 65533
"""uid and gid of the tests that the verifier runs (25-formats: uid A)."""


@dataclass(frozen=True)
class Limits:
    """Resources of one container. Memory and disk in MiB, CPUs as a fraction of cores."""

    memory_mb: int = 1024
    cpus: float = 1.0
    disk_mb: int = 256
    pids: int = 256
    tmp_mb: int = 64
    disk_backing: str = "memory"


@dataclass(frozen=True)
class Owner:
    """The labels of a container or volume: whose it is."""

    study: str
    cell: str
    attempt: str
    role: str
    deadline_s: float
    """Seconds from now after which anybody may reap it."""


@dataclass(frozen=True)
class Mount:
    """A volume of ours (`volume`) or a host directory of ours (`directory`) in a container."""

    source: str
    target: str
    kind: str = "volume"
    read_only: bool = True


@dataclass(frozen=True)
class ContainerSpec:
    """One container to be created; `image` is an image id or digest, `command` is an argv."""

    owner: Owner
    image: str
    command: tuple[str, ...]
    limits: Limits
    user: str = f"{AGENT_UID}:{AGENT_UID}"
    workdir: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """Further tmpfs mounts: target -> mount options; /tmp is always there."""
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True)
class Frame:
    """One message on a channel: a JSON header and a body of `header["size"]` bytes (0 when absent)."""

    header: dict[str, Any]
    body: bytes = b""

    @property
    def type(self) -> str:
        return str(self.header.get("type", ""))


class ChannelClosed(Exception):
    """The other side is gone: the container's stdout ended."""


class ChannelTimeout(Exception):
    """Nothing whole arrived before the deadline."""


class Channel(Protocol):
    """Framed talk with a program in a container over its stdin and stdout."""

    def send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        """Send one frame."""

    def receive(self, deadline: float, max_body: int) -> Frame:
        """The next frame. `deadline` is on time.monotonic(). ChannelTimeout, ChannelClosed;
        InfraFailure("bad_frame") for junk or excess.
        """

    def close(self) -> None:
        """Close both directions; safe twice."""


@dataclass(frozen=True)
class Exit:
    """How a container ended, from the engine's and our own records."""

    code: int
    oom_killed: bool
    """The engine's flag, or our sampled cgroup counter, says that the kernel killed for memory."""
    killed_by_us: str | None
    """The reason that we gave when we killed it, None when we did not."""
    engine_changed: bool
    """The engine restarted or lost the container in between: nothing can be said about the agent."""
    stderr: bytes = b""


class Container(Protocol):
    """A created container."""

    id: str

    def attach(self) -> Channel:
        """The framed channel; call before start."""

    def start(self) -> None:
        """Start it."""

    def wait(self, deadline: float) -> Exit | None:
        """Its end, or None when it still runs at `deadline` (time.monotonic())."""

    def kill(self, reason: str) -> Exit:
        """Kill (not stop) and wait; the reason stands in the Exit."""

    def remove(self) -> None:
        """Remove it, force; safe twice."""

    def counters(self) -> dict[str, int | float | None]:
        """One sample of its control group: cpu_s, throttled_s, memory_peak_mb, oom_kills, pids; unknown is None."""


class SandboxFactory(Protocol):
    """Makes containers and volumes. The only door from scoring to an engine."""

    def create(self, spec: ContainerSpec) -> Container:
        """Create, not start. InfraFailure when the engine refuses."""

    def create_volume(self, owner: Owner, limits: Limits) -> str:
        """A size-capped volume owned by the agent's uid; its name."""

    def remove_volume(self, name: str) -> None:
        """Remove it; safe twice."""

    def engine_identity(self) -> dict[str, Any]:
        """Engine name, version, id, start time, kernel, runtime, cgroup version: for fingerprints and for
        Exit.engine_changed.
        """
