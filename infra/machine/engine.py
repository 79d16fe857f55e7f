"""A container engine for this machine: the running one as it is, else Debian's, started here.

Rules:
1. An engine that answers is used as it is, never reconfigured and never restarted.
2. Only root starts one, only on the default socket, and only one at a time.
3. An engine of ours has no bridge and sets no firewall rule: no cell and no build step has a network.
4. A pid file that names no living engine is stale and goes; a living containerd stays and is adopted.
5. No engine within the deadline is a refusal (exit 3) that ends with the engine's own last words.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells.errors import EnvironmentFault
from infra.machine import packages
from infra.machine.steps import Steps
from launchers.base_image.engine_api import DEFAULT_HOST, EngineApi

DEADLINE_S = 90.0
_POLL_S = 0.1
_NETWORK_OPTIONS = {"bridge": "none", "iptables": "false", "ip6tables": "false", "ip-forward": "false"}
_LOG_CAP_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class EnginePlace:
    """Where an engine of ours keeps its files; `options` are what dockerd must be told of it."""

    host: str
    pid_file: Path
    exec_root: Path
    log: Path
    lock: Path
    options: tuple[str, ...] = ()
    daemon_json: Path = Path("/etc/docker/daemon.json")

    @classmethod
    def default(cls) -> EnginePlace:
        """The places that dockerd takes by itself."""
        run = Path("/var/run")
        log = Path("/var/log/assay-dockerd.log")
        return cls(DEFAULT_HOST, run / "docker.pid", run / "docker", log, run / "assay-engine.lock")

    @classmethod
    def private(cls, root: Path) -> EnginePlace:
        """An engine with all of its files under `root`, beside any other engine of the machine."""
        host, pid_file, exec_root = f"unix://{root}/engine.sock", root / "engine.pid", root / "exec"
        options = (f"--host={host}", f"--pidfile={pid_file}", f"--exec-root={exec_root}", f"--data-root={root}/data")
        return cls(host, pid_file, exec_root, root / "engine.log", root / "lock", options, root / "daemon.json")


def ensure_engine(place: EnginePlace, environment: Mapping[str, str], log: Path, deadline_s: float = DEADLINE_S) -> str:
    """Make sure that an engine answers, and say in a few words which; `log` takes what apt says.

    Raises EnvironmentFault, with what to do, where none answers and none may be started.
    """
    api = EngineApi(environment.get("DOCKER_HOST") or place.host, timeout_s=10.0)
    info = _answer(api)
    if info is not None:
        return f"{_described(info)}, used as it is"
    _require_permission(api, place)
    with _one_start_at_a_time(place.lock):
        info = _answer(api) or _install_and_start(api, place, log, deadline_s)
    return _described(info)


def _require_permission(api: EngineApi, place: EnginePlace) -> None:
    if api.host != place.host:
        raise EnvironmentFault(
            f"DOCKER_HOST names the engine {api.host}, but none answers there; start it, or unset DOCKER_HOST"
        )
    if _may_not_connect(api.host):
        raise EnvironmentFault(
            f"an engine's socket is at {api.host}, but user {os.geteuid()} may not open it; "
            "join the group `docker` (then log in again), or run this as root"
        )
    if os.geteuid() != 0:
        raise EnvironmentFault(
            f"no container engine answers at {api.host}, and only root may start one; "
            "run this as root once, have `dockerd` started, or set DOCKER_HOST"
        )


def _may_not_connect(host: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(host.removeprefix("unix://"))
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _answer(api: EngineApi) -> dict[str, Any] | None:
    try:
        return api.info()
    except EnvironmentFault:
        return None


def _described(info: Mapping[str, Any]) -> str:
    driver = info.get("Driver")
    slow = " (slow: every container copies its image)" if driver == "vfs" else ""
    return f"engine {info.get('ServerVersion')}, {driver}{slow}, cgroup v{info.get('CgroupVersion', '1')}"


def _install_and_start(api: EngineApi, place: EnginePlace, log: Path, deadline_s: float) -> dict[str, Any]:
    if packages.missing([packages.DOCKERD]):
        packages.install([packages.DOCKERD.package], log)
        info = _answer(api)  # under systemd Debian's package starts its own service
        if info is not None:
            return info
    if remove_stale_pid(place.pid_file, "dockerd"):
        return _wait(api, place, deadline_s, process=None)
    remove_stale_pid(place.exec_root / "containerd" / "containerd.pid", "containerd")
    return _wait(api, place, deadline_s, _start(place))


def remove_stale_pid(pid_file: Path, program: str, proc: Path = Path("/proc")) -> bool:
    """Whether the pid file names a living process of `program`; if it does not, the file is removed."""
    try:
        pid = int(pid_file.read_text("ascii").strip())
        alive = _is_living(proc / str(pid), program)
    except (OSError, ValueError):
        alive = False
    if not alive:
        pid_file.unlink(missing_ok=True)
    return alive


def _is_living(process: Path, program: str) -> bool:
    # A killed process that nobody waited for keeps its name; its state says that it is gone.
    status = dict(
        line.split(":\t", 1) for line in (process / "status").read_text("utf-8").splitlines() if ":\t" in line
    )
    return status["Name"] == program and not status["State"].startswith(("Z", "X"))


def dockerd_options(place: EnginePlace) -> list[str]:
    """The options of an engine of ours, less what the machine's own daemon.json decides: dockerd refuses both."""
    try:
        decided = set(json.loads(place.daemon_json.read_text("utf-8")))
    except FileNotFoundError:
        decided = set()
    except (OSError, ValueError) as error:
        raise EnvironmentFault(
            f"{place.daemon_json} cannot be read as JSON: {error}; dockerd would not start"
        ) from error
    network = [f"--{name}={value}" for name, value in _NETWORK_OPTIONS.items() if name not in decided]
    return [*network, *place.options]


def _start(place: EnginePlace) -> subprocess.Popen[bytes]:
    dockerd = packages.find_program("dockerd") or "dockerd"
    command = [dockerd, *dockerd_options(place)]
    if place.log.exists() and place.log.stat().st_size > _LOG_CAP_BYTES:
        place.log.unlink()
    with place.log.open("ab") as output:
        # A session of its own: the engine outlives the shell and gets none of its signals or variables.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": packages.SYSTEM_PATH, "LANG": "C.UTF-8"},
            start_new_session=True,
        )


def _wait(
    api: EngineApi, place: EnginePlace, deadline_s: float, process: subprocess.Popen[bytes] | None
) -> dict[str, Any]:
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        info = _answer(api)
        if info is not None:
            return info
        if process is not None and process.poll() is not None:
            raise _no_engine(place, f"dockerd ended with {process.returncode}")
        time.sleep(_POLL_S)
    if process is not None:
        process.terminate()
    raise _no_engine(place, f"no answer at {api.host} within {deadline_s:.0f} s")


def _no_engine(place: EnginePlace, found: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"started a container engine; {found}. A container or a machine without the right to mount and to make "
        f"cgroups cannot run one: then start an engine outside and set DOCKER_HOST. {place.log} ends:\n"
        + packages.tail(place.log)
    )


@contextmanager
def _one_start_at_a_time(lock: Path) -> Iterator[None]:
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main(arguments: Sequence[str], log: Path) -> int:
    """`infra/engine`: exit 0 with an engine that answers, 3 without one."""
    parser = argparse.ArgumentParser(prog="infra/engine", description="Make sure that a container engine answers.")
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="S", help="seconds to wait for it")
    options = parser.parse_args(arguments)
    steps = Steps()
    try:
        with steps.step("engine") as step:
            step.outcome = ensure_engine(EnginePlace.default(), os.environ, log, options.deadline)
    except EnvironmentFault as fault:
        print(f"engine: {fault}", file=sys.stderr)
        return fault.exit_code
    return 0
