"""The local Prefect server: started early, reused while it runs, gone when nobody has used it for a while.

Rules (60-engines):
1. One server a studies root; its address and process stand in `.prefect/server.json`.
2. A supervisor process of ours starts Prefect's server and ends it when nobody touched the lease file for `IDLE_S`.
3. Nothing of a study depends on the server's database: it may be wiped at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from cells.errors import EnvironmentFault
from cells.evidence.files import replace
from flows.prefect_home import STARTUP_S, prefect_environment, prefect_home
from launchers.labels import start_ticks

IDLE_S = 600.0
_POLL_S = 0.25


@dataclass(frozen=True)
class Server:
    """A server of ours: its supervisor's process id and start time, and where it answers."""

    pid: int
    started: int
    url: str

    @property
    def api_url(self) -> str:
        return f"{self.url}/api"


def start_server(studies: Path) -> Server:
    """The running server of this root, or a new one; returns at once, `await_server` waits until it answers."""
    home = prefect_home(studies)
    home.mkdir(parents=True, exist_ok=True)
    touch_lease(studies)
    with FileLock(home / "server.lock"):
        running = read_server(studies)
        return running if running is not None else _spawn(studies)


def await_server(server: Server, timeout_s: float = STARTUP_S) -> None:
    """Return when the server answers its health check; EnvironmentFault when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if _healthy(server.url):
            return
        if start_ticks(server.pid) != server.started:
            break
        time.sleep(_POLL_S)
    raise EnvironmentFault(
        f"the local Prefect server at {server.url} does not answer; see .prefect/server.log under the studies root, "
        "then `assay server stop` and try again"
    )


def await_server_url(api_url: str, timeout_s: float = STARTUP_S) -> None:
    """Return when the Prefect API at this address answers; EnvironmentFault when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not _healthy(api_url.removesuffix("/api")):
        if time.monotonic() > deadline:
            raise EnvironmentFault(f"no Prefect server answers at {api_url} (waited {timeout_s:.0f} s)")
        time.sleep(_POLL_S)


def read_server(studies: Path) -> Server | None:
    """The server of this root if its supervisor lives."""
    try:
        server = Server(**json.loads((prefect_home(studies) / "server.json").read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return server if start_ticks(server.pid) == server.started else None


def stop_server(studies: Path, timeout_s: float = 15.0) -> bool:
    """End the server of this root; False when none runs."""
    server = read_server(studies)
    if server is None:
        return False
    os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while start_ticks(server.pid) == server.started and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if start_ticks(server.pid) == server.started:
        os.killpg(server.pid, signal.SIGKILL)
    return True


def touch_lease(studies: Path) -> None:
    """Say that the server is needed; a running study does so every little while."""
    (prefect_home(studies) / "lease").touch()


def _spawn(studies: Path) -> Server:
    home = prefect_home(studies)
    port = _free_port()
    with (home / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.prefect_server", str(studies), str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=home,
        )
    started = start_ticks(process.pid)
    if started is None:
        raise EnvironmentFault(f"the Prefect server ended at once; see {home / 'server.log'}")
    server = Server(process.pid, started, f"http://127.0.0.1:{port}")
    replace(home / "server.json", json.dumps(asdict(server)).encode())
    return server


def supervise(studies: Path, port: int, idle_s: float = IDLE_S) -> int:
    """Body of the supervisor process: run Prefect's server until told to stop or until nobody needs it."""
    home = prefect_home(studies)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    server = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
        env=environment | prefect_environment(studies, None),
        stdin=subprocess.DEVNULL,
    )
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        while server.poll() is None and _idle(home / "lease") < idle_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(timeout=1.0)
    finally:
        _end(server)
    return server.returncode or 0


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(timeout=8.0)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _idle(lease: Path) -> float:
    try:
        return time.time() - lease.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/health", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1]), int(sys.argv[2])))
