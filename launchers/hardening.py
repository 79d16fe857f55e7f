"""The container configuration of everything that we start (30-evidence C1), as one pure function of a specification.

Rules:
1. Every protection is one field of `Hardening` and can be removed alone; only the sensitivity test ever does.
2. The default seccomp profile stays on: there is no field value that turns it off except for that test.
3. `memory + disk` is the memory of a container whose volume lies in memory: tmpfs pages are charged to it (C4).
4. Nothing of the image runs by itself: its entry point, its health check and the engine's log driver are off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cells.sandbox import ContainerSpec, Mount

MIB = 1 << 20
SHM_MB = 64
OPEN_FILES = 1024
TMP_INODES = 20_000
_ROOT = "0:0"


@dataclass(frozen=True)
class Hardening:
    """Which protections are in force. Every field off is a hole that a test must see."""

    no_network: bool = True
    drop_capabilities: bool = True
    no_new_privileges: bool = True
    seccomp: bool = True
    own_user: bool = True
    read_only_root: bool = True
    pids: bool = True
    memory: bool = True
    cpus: bool = True
    open_files: bool = True
    core_files: bool = True
    file_size: bool = True
    private_ipc: bool = True
    small_shm: bool = True
    capped_tmp: bool = True
    no_log: bool = True


FULL = Hardening()


def container_config(spec: ContainerSpec, labels: Mapping[str, str], hardening: Hardening = FULL) -> dict[str, Any]:
    """The body of the engine's `POST /containers/create` (API 1.41), attachable on stdin, stdout and stderr."""
    return {
        "Image": spec.image,
        "Entrypoint": list(spec.command),
        "Cmd": [],
        "Hostname": "cell",
        "User": spec.user if hardening.own_user else _ROOT,
        "WorkingDir": spec.workdir,
        "Env": [f"{name}={value}" for name, value in spec.environment.items()],
        "Labels": dict(labels),
        "Healthcheck": {"Test": ["NONE"]},
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "NetworkDisabled": hardening.no_network,
        "HostConfig": {**_isolation(spec, hardening), **_resources(spec, hardening), **_storage(spec, hardening)},
    }


def _isolation(spec: ContainerSpec, hardening: Hardening) -> dict[str, Any]:
    options = [] if not hardening.no_new_privileges else ["no-new-privileges:true"]
    if not hardening.seccomp:
        options.append("seccomp=unconfined")
    return {
        "NetworkMode": "none" if hardening.no_network else "host",
        "Dns": ["127.0.0.1"],  # else the engine copies the host's resolv.conf, with its name server, into every cell
        "CapDrop": ["ALL"] if hardening.drop_capabilities else [],
        "CapAdd": list(spec.capabilities) if hardening.drop_capabilities else [],
        "SecurityOpt": options,
        "Privileged": False,
        "IpcMode": "private" if hardening.private_ipc else "host",
        "Init": False,  # our own first process reaps
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "none" if hardening.no_log else "json-file", "Config": {}},
    }


def _resources(spec: ContainerSpec, hardening: Hardening) -> dict[str, Any]:
    limits = spec.limits
    in_memory = limits.disk_mb if limits.disk_backing == "memory" else 0
    memory = (limits.memory_mb + in_memory) * MIB if hardening.memory else 0
    return {
        "Memory": memory,
        "MemorySwap": memory,
        "NanoCpus": round(limits.cpus * 1e9) if hardening.cpus else 0,
        "PidsLimit": limits.pids if hardening.pids else -1,
        "Ulimits": _ulimits(spec, hardening),
        "ShmSize": (SHM_MB if hardening.small_shm else 16 * SHM_MB) * MIB,
    }


def _ulimits(spec: ContainerSpec, hardening: Hardening) -> list[dict[str, Any]]:
    # One MiB above the disk: a full volume ends as ENOSPC, only a sparse file meets the file size limit.
    largest = (max(spec.limits.disk_mb, spec.limits.tmp_mb) + 1) * MIB
    wanted = (
        ("nofile", OPEN_FILES, hardening.open_files),
        ("core", 0, hardening.core_files),
        ("fsize", largest, hardening.file_size),
    )
    return [{"Name": name, "Soft": value, "Hard": value} for name, value, on in wanted if on]


def _storage(spec: ContainerSpec, hardening: Hardening) -> dict[str, Any]:
    # exec: builds and test runners make programs in /tmp; the engine would add noexec in silence (C1, gotchas).
    capped = f"rw,nosuid,nodev,exec,size={spec.limits.tmp_mb}m,nr_inodes={TMP_INODES},mode=1777"
    tmp = capped if hardening.capped_tmp else "rw,nosuid,nodev,exec,mode=1777"
    return {
        "ReadonlyRootfs": hardening.read_only_root,
        "Tmpfs": {"/tmp": tmp, **spec.tmpfs},
        "Mounts": [_mount(mount) for mount in spec.mounts],
    }


def _mount(mount: Mount) -> dict[str, Any]:
    common = {"Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}
    if mount.kind == "directory":
        return {"Type": "bind", **common, "BindOptions": {"Propagation": "rprivate"}}
    # NoCopy: the engine's own copy-up into a fresh volume is lost or resets the owner to root (C4).
    return {"Type": "volume", **common, "VolumeOptions": {"NoCopy": True}}
