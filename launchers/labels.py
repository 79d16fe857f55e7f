"""Labels of everything that is ours on an engine, and whose owner is dead (20-interface, "Labels and names").

Rules:
1. An owner is a process: pid, start time in clock ticks, boot id, and the pid namespace where the pid means anything.
2. An owner of another boot, or whose pid is gone or belongs to a later process, is dead.
3. Of an owner in another pid namespace of this boot nothing is known: only the deadline decides.
4. A label that cannot be read belongs to nobody: only the deadline decides; without one, it is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cells.sandbox import Owner

STUDY, CELL, ATTEMPT, ROLE = "assay.study", "assay.cell", "assay.attempt", "assay.role"
OWNER, DEADLINE = "assay.owner", "assay.deadline"
BACKING = "assay.backing"
"""On a file-backed volume: the path of its image, on the machine of its owner."""


@dataclass(frozen=True)
class OwnerProcess:
    """A process of this or another boot; `started` in clock ticks since its boot."""

    pid: int
    started: int
    boot_id: str
    namespace: str

    def label(self) -> str:
        """`pid.started.boot_id.namespace`, the value of `assay.owner`."""
        return f"{self.pid}.{self.started}.{self.boot_id}.{self.namespace}"

    @classmethod
    def parse(cls, label: str) -> OwnerProcess | None:
        """The owner that a label names, None for anything that is not such a label."""
        parts = label.split(".")
        if len(parts) != 4 or not (parts[0].isdecimal() and parts[1].isdecimal()):
            return None
        return cls(int(parts[0]), int(parts[1]), parts[2], parts[3])


def this_process() -> OwnerProcess:
    """The running process as an owner."""
    started = start_ticks(os.getpid())
    if started is None:  # /proc is there on every machine that can run containers
        raise RuntimeError("asked for this process in /proc; it is not there")
    return OwnerProcess(os.getpid(), started, _boot_id(), _pid_namespace())


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot (proc(5), stat field 22); None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def labels_of(owner: Owner, process: OwnerProcess, now: float) -> dict[str, str]:
    """The labels of a container or volume made now (`now` in seconds since 1970)."""
    return {
        STUDY: owner.study,
        CELL: owner.cell,
        ATTEMPT: owner.attempt,
        ROLE: owner.role,
        OWNER: process.label(),
        DEADLINE: f"{now + owner.deadline_s:.0f}",
    }


def why_reapable(
    labels: Mapping[str, str],
    here: OwnerProcess,
    now: float,
    started: Callable[[int], int | None] = start_ticks,
) -> str | None:
    """Why something with these labels may be removed (`owner_dead`, `deadline_passed`), None when it may not."""
    owner = OwnerProcess.parse(labels.get(OWNER, ""))
    if owner is not None and _is_dead(owner, here, started):
        return "owner_dead"
    deadline = labels.get(DEADLINE, "")
    return "deadline_passed" if deadline.isdecimal() and int(deadline) < now else None


def _is_dead(owner: OwnerProcess, here: OwnerProcess, started: Callable[[int], int | None]) -> bool:
    if owner.boot_id != here.boot_id:
        return True
    if owner.namespace != here.namespace:
        return False
    return started(owner.pid) != owner.started


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")
