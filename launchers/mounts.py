"""The containers of a live cell as specifications: what is mounted where, computed and checked against the contract.

Rules:
1. The agent sees its work directory, our programs of the agent side, its harness's software, its door to the model, and
   (where its harness keeps one) its record; the collector sees the volumes, read-only, and the trusted programs.
2. Nothing of the attempt's folder is mounted anywhere: what a harness may know of it comes over the channel.
3. The folders of agent-side and trusted programs are never in one container.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import cells.incell.agent as agent_side
import cells.incell.trusted as trusted_side
from cells.design.cell import CellLimits
from cells.errors import BoundaryViolation, EnvironmentFault
from cells.sandbox import ContainerSpec, Limits, Mount, Owner
from launchers.live_request import LiveRequest

RECORDS_MB = 64
"""Size of the volume for a harness's own record; charged to the agent's memory on top of its limits."""
COLLECTOR_MEMORY_MB = 512
COLLECTOR_RECORDS = "/records"
"""Where the collector finds the harness's record."""
_SMALLEST_TMP_MB = 64
_MARGIN_S = 6 * 3600.0


@dataclass(frozen=True)
class CellVolumes:
    """Names of the volumes of one cell; `records` only where the harness keeps a record."""

    work: str
    records: str | None

    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (self.work,) if self.records is None else (self.work, self.records)


def owner_of(request: LiveRequest, role: str) -> Owner:
    """The labels of what belongs to this attempt; its deadline leaves room for a provider that waits and for the
    post-run side."""
    limits = request.spec.limits
    deadline_s = limits.wall_s + limits.verify_s + _MARGIN_S
    return Owner(request.spec.study, request.spec.directory, request.attempt, role, deadline_s)


def container_limits(limits: CellLimits, records: bool) -> Limits:
    """The agent container's resources."""
    return Limits(
        memory_mb=limits.memory_mb + (RECORDS_MB if records else 0),
        cpus=limits.cpus,
        disk_mb=limits.disk_mb,
        pids=limits.pids,
        tmp_mb=max(_SMALLEST_TMP_MB, limits.disk_mb),
        disk_backing=limits.disk_backing,
    )


def records_limits(limits: CellLimits) -> Limits:
    """The size of the volume for the harness's own record."""
    return Limits(disk_mb=RECORDS_MB, memory_mb=limits.memory_mb)


def agent_spec(request: LiveRequest, volumes: CellVolumes, socket_dir: Path | None) -> ContainerSpec:
    """The agent container. BoundaryViolation when a mount would show it something of the attempt."""
    mounts = [
        Mount(volumes.work, request.image.workdir, read_only=False),
        Mount(str(program_folder(agent_side)), agent_side.MOUNT, kind="directory"),
        *(layer.mount() for layer in request.layers),
    ]
    if volumes.records is not None:
        mounts.append(Mount(volumes.records, agent_side.RECORDS, read_only=False))
    if socket_dir is not None:
        mounts.append(Mount(str(socket_dir), agent_side.GATEWAY_MOUNT, kind="directory"))
    refuse_attempt_paths(mounts, request.stage)
    return ContainerSpec(
        owner=owner_of(request, "agent"),
        image=request.image.image_id,
        command=agent_side.INIT_COMMAND,
        limits=container_limits(request.spec.limits, volumes.records is not None),
        mounts=tuple(mounts),
    )


def collector_spec(request: LiveRequest, volumes: CellVolumes) -> ContainerSpec:
    """The collector: root without capabilities but the one that reads any mode, everything read-only."""
    limits = request.spec.limits
    mounts = [
        Mount(volumes.work, trusted_side.VOLUME_ROOT),
        Mount(str(program_folder(trusted_side)), trusted_side.MOUNT, kind="directory"),
    ]
    if volumes.records is not None:
        mounts.append(Mount(volumes.records, COLLECTOR_RECORDS))
    refuse_attempt_paths(mounts, request.stage)
    return ContainerSpec(
        owner=owner_of(request, "collector"),
        image=request.image.image_id,
        command=trusted_side.COLLECTOR_COMMAND,
        limits=Limits(
            memory_mb=COLLECTOR_MEMORY_MB,
            cpus=max(1.0, limits.cpus),
            disk_mb=limits.disk_mb,
            pids=64,
            tmp_mb=trusted_side.COLLECTOR_TMP_MB,
            disk_backing=limits.disk_backing,
        ),
        user="0:0",
        mounts=tuple(mounts),
        capabilities=trusted_side.COLLECTOR_CAPABILITIES,
    )


def refuse_attempt_paths(mounts: Iterable[Mount], attempt_root: Path) -> None:
    """BoundaryViolation when a host directory is mounted that lies in the attempt, or that holds it."""
    root = attempt_root.resolve()
    for mount in mounts:
        if mount.kind != "directory":
            continue
        source = Path(mount.source).resolve()
        if source == root or root in source.parents or source in root.parents:
            raise BoundaryViolation(
                f"mount {mount.target}: asked for {source}, which is or holds files of the attempt; a live cell sees "
                "none of them"
            )


def program_folder(package: ModuleType) -> Path:
    """Where a package of in-cell programs lies. EnvironmentFault when a cell's user could not read it."""
    folder = Path(str(package.__file__)).parent
    if folder.stat().st_mode & 0o005 != 0o005 or Path(str(package.__file__)).stat().st_mode & 0o004 == 0:
        raise EnvironmentFault(
            f"{folder}: a cell's own user must be able to read it; as installed it is not readable by others "
            f"(chmod -R o+rX {folder})"
        )
    return folder
