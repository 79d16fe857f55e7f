"""The Docker engine: finding it, what it is, and whether it is still the one that it was.

Rules:
1. A running engine is used as it is, never reconfigured.
2. The engine's process (pid and start time behind the socket) is its life: a new process means that nothing can be said
   about the containers that ran meanwhile (30-evidence D, "Docker faults").
3. Without an engine nothing is created: EnvironmentFault says what to do.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import DockerException

from cells.errors import EnvironmentFault
from launchers.labels import start_ticks

CALL_TIMEOUT_S = 120
"""How long one call may stay silent. A busy engine needs seconds to start a container, never minutes."""
_POOL = 64
_UNIX = "unix://"
_PLAIN = (_UNIX, "tcp://")
_PID_FILES = (Path("/run/docker.pid"), Path("/var/run/docker.pid"))


@dataclass(frozen=True)
class EngineProcess:
    """The process that answers on the engine's socket; `started` in clock ticks since boot."""

    pid: int
    started: int


class Engine:
    """A connected engine. One session and one pool of connections, shared by all threads."""

    def __init__(self, client: docker.DockerClient, host: str) -> None:
        self.client, self.host = client, host

    @classmethod
    def connect(cls, host: str | None = None) -> Engine:
        """The engine at `host`, else at DOCKER_HOST, else on the default socket.

        EnvironmentFault when none answers, or when it cannot be on this machine.
        """
        address = host or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        if not address.startswith(_PLAIN):
            raise EnvironmentFault(
                f"asked the Docker engine at {address}; a cell shares folders and sockets with us, so the engine "
                "must be on this machine: unix:///path/of/socket or tcp://127.0.0.1:port"
            )
        try:
            client = docker.DockerClient(base_url=address, version="auto", timeout=CALL_TIMEOUT_S, max_pool_size=_POOL)
        except (DockerException, requests.RequestException, OSError) as error:
            raise EnvironmentFault(
                f"asked the Docker engine at {address}; no answer ({_first_line(error)}). "
                "Start it (./infra/run does) or point DOCKER_HOST at a running one, and see that you may use its socket"
            ) from error
        return cls(client, address)

    @property
    def api(self) -> Any:
        """The SDK's low-level client."""
        return self.client.api

    def close(self) -> None:
        """Close the pool of connections."""
        self.client.close()

    def process(self) -> EngineProcess | None:
        """The process behind a local socket, now; None for an engine on another machine or when nobody listens."""
        if not self.host.startswith(_UNIX):
            return None
        pid = _listener_pid(self.host.removeprefix(_UNIX))
        started = None if pid is None else start_ticks(pid)
        return None if pid is None or started is None else EngineProcess(pid, started)

    @cached_property
    def description(self) -> dict[str, Any]:
        """What the engine says of itself and does not change while it lives: versions, kernel, control groups."""
        try:
            info, version = self.api.info(), self.api.version()
        except (DockerException, requests.RequestException) as error:
            raise EnvironmentFault(
                f"the engine at {self.host} does not describe itself: {_first_line(error)}"
            ) from error
        return describe(info, version)

    def identity(self) -> dict[str, Any]:
        """`description` and the process that answers now, for fingerprints and for telling a restart."""
        process = self.process()
        return {
            **self.description,
            "process": None if process is None else {"pid": process.pid, "started_ticks": process.started},
        }

    @property
    def uid_offset(self) -> int:
        """What a user-namespace remap adds to every uid of a container; 0 without one."""
        return int(self.description["uid_offset"])


def describe(info: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """The stable part of `docker info` and `docker version`; unknown is None."""
    components = {item.get("Name"): item.get("Version") for item in version.get("Components") or []}
    return {
        "name": "docker",
        "id": info.get("ID"),
        "version": version.get("Version"),
        "api_version": version.get("ApiVersion"),
        "kernel": info.get("KernelVersion"),
        "architecture": info.get("Architecture"),
        "operating_system": info.get("OperatingSystem"),
        "runtime": info.get("DefaultRuntime"),
        "runtime_version": components.get(info.get("DefaultRuntime")),
        "containerd_version": components.get("containerd"),
        "cgroup_version": info.get("CgroupVersion"),
        "cgroup_driver": info.get("CgroupDriver"),
        "storage_driver": info.get("Driver"),
        "security_options": sorted(info.get("SecurityOptions") or []),
        "live_restore": info.get("LiveRestoreEnabled"),
        "uid_offset": _uid_offset(info),
        "cpus": info.get("NCPU"),
        "memory_mb": (info.get("MemTotal") or 0) >> 20 or None,
    }


def _uid_offset(info: dict[str, Any]) -> int:
    # A remapped engine keeps its data under <root>/<uid>.<gid> and lists name=userns
    # (dockerd, "Isolate containers with a user namespace").
    found = re.search(r"/(\d+)\.\d+/?$", info.get("DockerRootDir") or "")
    remapped = any("name=userns" in option for option in info.get("SecurityOptions") or [])
    return int(found.group(1)) if remapped and found else 0


def _listener_pid(path: str) -> int | None:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(5)
            probe.connect(path)
            pid = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    except OSError:
        return None
    # 1: a service manager opened the socket; 0: the listener lives in a pid namespace that we do not see.
    return pid if pid > 1 else _pid_from_file()


def _pid_from_file() -> int | None:
    for path in _PID_FILES:
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            continue
    return None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
