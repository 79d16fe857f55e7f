"""Containers and volumes on the Docker engine: `cells.sandbox.SandboxFactory` for real.

Rules:
1. Few calls: create, attach, start, wait, remove; an inspection only where an exit code leaves a question.
2. 137 says nothing by itself: an end is explained by our own kill record, by the sampled counters of the control group
   (gone at exit), and by the engine's identity at both ends (30-evidence D, "Docker faults").
3. What the engine refuses or loses is InfraFailure, never the agent's doing.
4. Kill, never stop: a grace period is lost time where PID 1 ignores SIGTERM.
5. What could not be removed (an engine that is away for a moment) is tried again before the next volume is made; what
   is still there when this process ends is the reaper's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from urllib3.exceptions import ReadTimeoutError

from cells.errors import InfraFailure
from cells.sandbox import AGENT_UID, Channel, Container, ContainerSpec, Exit, Limits, Owner, SandboxFactory
from launchers import cgroup, volumes
from launchers.channel import AttachChannel
from launchers.engine import Engine
from launchers.hardening import FULL, Hardening, container_config
from launchers.labels import labels_of, this_process

KILLED = 137
_KILL_WAIT_S = 60.0
_BEING_REMOVED = ("removing", "dead")
_ATTACH = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}


class DockerSandboxes(SandboxFactory):
    """Makes hardened containers and capped volumes; safe to share between threads.

    `run_directory` holds the images of file-backed volumes; without it they are refused.
    """

    def __init__(self, engine: Engine, run_directory: Path | None = None, hardening: Hardening = FULL) -> None:
        self._engine, self._run_directory, self._hardening = engine, run_directory, hardening
        self._process = this_process()
        self._left: dict[str, Callable[[], None]] = {}
        self._lock = threading.Lock()

    def create(self, spec: ContainerSpec) -> Container:
        """Create, not start. InfraFailure: "image_missing", "engine_refused" or "engine_lost"."""
        config = container_config(spec, self._labels(spec.owner), self._hardening)
        with _engine_faults(f"create the {spec.owner.role} container"):
            created = self._engine.api.create_container_from_config(config)
        return DockerContainer(self._engine, created["Id"], self._leave)

    def create_volume(self, owner: Owner, limits: Limits) -> str:
        """A size-capped volume owned by the agent's uid; its name."""
        self.sweep()
        labels, uid = self._labels(owner), AGENT_UID + self._engine.uid_offset
        with _engine_faults("create a volume"):
            if limits.disk_backing == "memory":
                return volumes.create_in_memory(self._engine.api, labels, limits, uid)
            if self._run_directory is None:
                raise InfraFailure("volume", 'asked for disk_backing = "file"; no run directory was given')
            return volumes.create_on_disk(self._engine.api, labels, limits, self._run_directory, uid)

    def remove_volume(self, name: str) -> None:
        """Remove it; safe twice."""

        def remove() -> None:
            with _engine_faults(f"remove volume {name}"):
                volumes.remove(self._engine.api, name)

        try:
            remove()
        except InfraFailure:
            self._leave(name, remove)
            raise

    def sweep(self) -> list[str]:
        """Try again what could not be removed; the names of what is still left."""
        with self._lock:
            waiting, self._left = self._left, {}
        for name, remove in waiting.items():
            try:
                remove()
            except InfraFailure:
                self._leave(name, remove)
        with self._lock:
            return sorted(self._left)

    def engine_identity(self) -> dict[str, Any]:
        """See `Engine.identity`."""
        return self._engine.identity()

    def _leave(self, name: str, remove: Callable[[], None]) -> None:
        with self._lock:
            self._left[name] = remove

    def _labels(self, owner: Owner) -> Mapping[str, str]:
        return labels_of(owner, self._process, time.time())


class DockerContainer(Container):
    """A container on the engine; one thread at a time."""

    def __init__(self, engine: Engine, container_id: str, leave: Callable[[str, Callable[[], None]], None]) -> None:
        self.id = container_id
        self._engine, self._leave = engine, leave
        self._born_under = engine.process()
        self._channel: AttachChannel | None = None
        self._group: str | None = None
        self._oom_kills: int | float | None = None
        self._end: Exit | None = None
        self._removed = False

    def attach(self) -> Channel:
        """The framed channel; call before start, once."""
        with _engine_faults("attach"):
            stream = self._engine.api.attach_socket(self.id, _ATTACH)
        # A SocketIO whose socket is the engine's; nothing of the body is buffered, since nothing runs yet.
        self._channel = AttachChannel(stream._sock, stream.close)
        return self._channel

    def start(self) -> None:
        """Start it."""
        with _engine_faults("start a container"):
            self._engine.api.start(self.id)

    def wait(self, deadline: float) -> Exit | None:
        """Its end, or None when it still runs at `deadline` (time.monotonic())."""
        if self._end is None:
            self._end = self._wait(deadline, killed_by_us=None)
        return self._end

    def kill(self, reason: str) -> Exit:
        """Kill and wait; the reason stands in the Exit unless it had ended by itself. InfraFailure("engine_lost")."""
        if self._end is not None:
            return self._end
        self.counters()
        killed_by_us: str | None = reason
        try:
            with _engine_faults("kill a container"):
                self._engine.api.kill(self.id)
        except (_NotRunning, _Gone):
            killed_by_us = None
        self._end = self._wait(time.monotonic() + _KILL_WAIT_S, killed_by_us)
        if self._end is None:
            raise InfraFailure(
                "engine_lost", f"container {self.id[:12]} still runs {_KILL_WAIT_S:.0f} s after its kill"
            )
        return self._end

    def remove(self) -> None:
        """Remove it, force, and close its channel; safe twice."""
        if self._channel is not None:
            self._channel.close()
        if self._removed:
            return
        try:
            remove_container(self._engine.api, self.id)
        except InfraFailure:
            self._leave(self.id, lambda: remove_container(self._engine.api, self.id))
            raise
        self._removed = True

    def counters(self) -> dict[str, int | float | None]:
        """One sample of its control group (see `cells.incell.agent.counters`); unknown is None."""
        if self._group is None:
            self._group = cgroup.locate(self.id, self._pid)
        found = cgroup.sample(self._group)
        if found["oom_kills"] is not None:
            self._oom_kills = found["oom_kills"]
        return found

    def _wait(self, deadline: float, killed_by_us: str | None) -> Exit | None:
        try:
            with _engine_faults("wait for a container"):
                code = _wait_for_code(self._engine.api, self.id, deadline)
        except _Gone:
            return self._exit(KILLED, oom=False, killed_by_us=killed_by_us, lost=True)
        if code is None:
            return None
        if code == 0 or killed_by_us is not None:
            return self._exit(code, oom=False, killed_by_us=killed_by_us, lost=False)
        try:
            with _engine_faults("inspect a container"):
                state = self._engine.api.inspect_container(self.id)["State"]
        except _Gone:
            return self._exit(code, oom=False, killed_by_us=None, lost=True)
        lost = state.get("Status") in _BEING_REMOVED
        return self._exit(code, oom=bool(state.get("OOMKilled")), killed_by_us=None, lost=lost)

    def _exit(self, code: int, *, oom: bool, killed_by_us: str | None, lost: bool) -> Exit:
        return Exit(
            code=code,
            oom_killed=oom or bool(self._oom_kills),
            killed_by_us=killed_by_us,
            engine_changed=lost or self._engine.process() != self._born_under,
            stderr=b"" if self._channel is None else self._channel.stderr,
        )

    def _pid(self) -> int | None:
        try:
            return int(self._engine.api.inspect_container(self.id)["State"]["Pid"]) or None
        except (DockerException, requests.RequestException):
            return None


def remove_container(api: Any, container_id: str) -> None:
    """Kill and remove a container; one that is gone or on its way is no error. InfraFailure for the rest."""
    with _engine_faults("remove a container"):
        try:
            # v: anonymous volumes that an image declares; named ones stay.
            api.remove_container(container_id, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409 or "already in progress" not in str(error.explanation):
                raise


class _Gone(InfraFailure):
    """The engine does not know the container any more."""


class _NotRunning(InfraFailure):
    """The engine says that the container is not running."""


@contextmanager
def _engine_faults(asked: str) -> Iterator[None]:
    """Turns what the engine or the way to it does wrong into InfraFailure."""
    try:
        yield
    except ImageNotFound as error:
        raise InfraFailure("image_missing", f"asked the engine to {asked}: {error.explanation}") from error
    except NotFound as error:
        raise _Gone("engine_lost", f"asked the engine to {asked}: {error.explanation}") from error
    except APIError as error:
        reason = f"asked the engine to {asked}: {error.explanation}"
        if error.status_code == 409 and "is not running" in str(error.explanation):
            raise _NotRunning("engine_refused", reason) from error
        raise InfraFailure("engine_refused", reason) from error
    except (DockerException, requests.RequestException, OSError) as error:
        raise InfraFailure("engine_lost", f"asked the engine to {asked}: {error}") from error


def _wait_for_code(api: Any, container_id: str, deadline: float) -> int | None:
    """The exit code, None when the container still runs at the deadline."""
    while True:
        patience = max(0.01, deadline - time.monotonic())
        try:
            return int(api.wait(container_id, timeout=patience)["StatusCode"])
        except requests.RequestException as error:
            if not _is_read_timeout(error):
                raise
        if time.monotonic() >= deadline:
            return None


def _is_read_timeout(error: requests.RequestException) -> bool:
    # The SDK shows a timeout of a streamed answer as a ConnectionError around it.
    return isinstance(error, requests.ReadTimeout) or any(isinstance(item, ReadTimeoutError) for item in error.args)
