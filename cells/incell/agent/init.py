"""PID 1 of the agent container: copies the base tree, runs the harness, ends what it leaves, and reports.

Rules:
1. Orders come in frames on stdin: `file` (to lay down under /tmp/assay), `stdin` (what the harness reads), `run`.
2. Reports go out in frames on stdout: `ready` (just before the harness starts), `output`, then one `ended`; `failed`
   when the harness could not be started at all, which is nobody's doing but ours.
3. An end without `ended` is never a result: the launcher calls it a broken sandbox.
4. When the harness's first process has ended, everything else is killed before the report: nothing writes later.
5. When the launcher goes away (stdin ends), everything is killed and this process ends.
6. It refuses to be anything but PID 1: elsewhere its killing would reach what is not the cell's.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # run as a script in the container: this directory is the package
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(_here))
    __package__ = os.path.basename(_here)
    __import__(__package__)

import contextlib
import json
import select
import signal
import time
from typing import Any

from . import processes
from .counters import read_group
from .frames import HostGone, Reader, send
from .relay import Relay
from .tree_copy import copy_tree

CGROUP = "/sys/fs/cgroup"
FILES = "/tmp/assay"
_END_ALL_S, _DISMISS_S = 10.0, 2.0
_ORPHANED, _FAILED = 3, 4


class Orders:
    """What the launcher wants done.

    `run`: command, environment, workdir, base (or null), forward (rows of port and socket), output_bytes.
    `stdin`: descriptor of what the harness reads on its stdin.
    """

    def __init__(self, run: dict[str, Any], stdin: int) -> None:
        self.run, self.stdin = run, stdin


class Watched:
    """What is seen of the harness while it runs; `ours` are our own other processes by name."""

    def __init__(self, harness: int, ours: dict[int, str]) -> None:
        self.harness, self.ours = harness, ours
        self.status: int | None = None
        self.usage: dict[str, float] = {}
        self.broken: str | None = None

    @property
    def over(self) -> bool:
        return self.status is not None or self.broken is not None

    def reap(self) -> None:
        """Wait for whatever ended; a companion of ours that ended was killed by the agent."""
        while True:
            try:
                pid, status, found = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.harness:
                self.status, self.usage = status, processes.usage(found)
            elif pid in self.ours:
                self.broken = f"{self.ours.pop(pid)}_killed"

    def dismiss(self) -> None:
        """Send our companions away; one that was killed just before says so by how it ended."""
        for pid, name in self.ours.items():
            if not processes.dismiss(pid, time.monotonic() + _DISMISS_S):
                self.broken = self.broken or f"{name}_killed"


def main() -> int:
    """The whole life of the container."""
    if os.getpid() != 1:
        sys.stderr.write("init.py is the first process of a container: it kills every process that it can see\n")
        return 2
    protected = processes.protect("assay-init")
    wake = _wakeups()
    reader = Reader(0)
    try:
        orders = _read_orders(reader)
        started = time.monotonic()
        entries = _prepare(orders.run)
        ours = _companions(orders.run)
        facts = {"entries": entries, "copy_s": round(time.monotonic() - started, 6), "protected": protected}
        send(1, {"type": "ready", **facts})
        return _run(orders, ours, wake)
    except HostGone:
        processes.end_all(time.monotonic() + _END_ALL_S)
        return _ORPHANED
    except (OSError, ValueError, KeyError, TypeError) as error:
        detail = f"{type(error).__name__}: {error}"[:2000]
        with contextlib.suppress(HostGone):
            send(1, {"type": "failed", "reason": "launch", "detail": detail})
        return _FAILED


def _read_orders(reader: Reader) -> Orders:
    stdin = os.open(os.devnull, os.O_RDONLY)
    while True:
        header, body = reader.frame()
        if header["type"] == "file":
            _lay_down(header["name"], body)
        elif header["type"] == "stdin":
            os.close(stdin)
            stdin = _readable(body)
        elif header["type"] == "run":
            return Orders(json.loads(body), stdin)
        else:
            raise ValueError(f"unknown order {header['type']!r}")


def _lay_down(name: str, content: bytes) -> None:
    path = os.path.join(FILES, name)
    if os.path.isabs(name) or ".." in name.split("/"):
        raise ValueError(f"a file outside {FILES}: {name!r}")
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path, "xb") as stream:
        stream.write(content)


def _readable(content: bytes) -> int:
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _prepare(run: dict[str, Any]) -> int:
    home = run["environment"].get("HOME")
    if home:
        os.makedirs(home, mode=0o755, exist_ok=True)
    return copy_tree(run["base"], run["workdir"]) if run.get("base") else 0


def _companions(run: dict[str, Any]) -> dict[int, str]:
    ours = {processes.companion("assay-guard", processes.sleep_for_ever): "guard"}
    for row in run.get("forward", ()):
        ours[_forwarder(int(row["port"]), row["socket"])] = "forwarder"
    return ours


def _forwarder(port: int, target: str) -> int:
    from . import forward  # sockets and threads cost a start-up that most cells do not need

    with forward.listen(port) as server:
        return processes.companion("assay-forward", lambda: forward.serve(server, target))


def _run(orders: Orders, ours: dict[int, str], wake: int) -> int:
    run, started = orders.run, time.monotonic()
    environment = {**os.environ, **run["environment"]}  # the image's own, then what the launcher says
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    streams = (orders.stdin, out_write, err_write)
    watched = Watched(processes.start(run["command"], environment, run["workdir"], streams), ours)
    _forward_signals(watched.harness)
    for descriptor in streams:
        os.close(descriptor)
    cap = int(run["output_bytes"])
    relays = [Relay("stdout", out_read, cap, _report), Relay("stderr", err_read, cap, _report)]
    for relay in relays:
        os.set_blocking(relay.descriptor, False)
    _watch(watched, relays, wake)
    _finish(watched, relays, run["workdir"], time.monotonic() - started)
    return 0


def _watch(watched: Watched, relays: list[Relay], wake: int) -> None:
    poll = select.poll()
    by_descriptor = {relay.descriptor: relay for relay in relays}
    for descriptor in (0, wake, *by_descriptor):
        poll.register(descriptor, select.POLLIN)
    watched.reap()  # it may have ended before the first look
    while not watched.over:
        for descriptor, _ in poll.poll():
            if descriptor == 0 and not os.read(0, 4096):
                raise HostGone
            if descriptor == wake:
                os.read(wake, 4096)
                watched.reap()
            elif relay := by_descriptor.get(descriptor):
                relay.read()
                if not relay.open:
                    poll.unregister(descriptor)


def _finish(watched: Watched, relays: list[Relay], workdir: str, wall_s: float) -> None:
    left = processes.living(list(watched.ours))
    counters = read_group(CGROUP)
    watched.dismiss()
    processes.end_all(time.monotonic() + _END_ALL_S)
    _drain(relays, time.monotonic() + _END_ALL_S)
    output = {relay.name: relay.finish() for relay in relays}
    if watched.broken is None and not os.access(workdir, os.R_OK | os.W_OK | os.X_OK):
        watched.broken = "workdir_unusable"
    report = {
        **_how(watched.status),
        "broken": watched.broken,
        "usage": watched.usage,
        "left_processes": left,
        "output": output,
        "counters": counters,
        "disk": _disk(workdir),
        "wall_s": round(wall_s, 6),
    }
    send(1, {"type": "ended"}, json.dumps(report).encode("ascii"))


def _drain(relays: list[Relay], deadline: float) -> None:
    # Every writer is dead, so the pipes end; the deadline is for a process that the kernel cannot kill.
    while any(relay.open for relay in relays) and time.monotonic() < deadline:
        for relay in relays:
            if relay.open:
                relay.read()


def _how(status: int | None) -> dict[str, int | None]:
    if status is None:
        return {"exit_code": None, "signal": None}
    killed = os.WIFSIGNALED(status)
    return {
        "exit_code": None if killed else os.WEXITSTATUS(status),
        "signal": os.WTERMSIG(status) if killed else None,
    }


def _disk(workdir: str) -> dict[str, float | int | None]:
    try:
        found = os.statvfs(workdir)
    except OSError:
        return {"size_mb": None, "free_mb": None, "free_inodes": None}
    return {
        "size_mb": round(found.f_blocks * found.f_frsize / (1 << 20), 3),
        "free_mb": round(found.f_bavail * found.f_frsize / (1 << 20), 3),
        "free_inodes": found.f_favail,
    }


def _report(header: dict[str, Any], body: bytes) -> None:
    send(1, header, body)


def _wakeups() -> int:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return read


def _forward_signals(harness: int) -> None:
    def hand_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(harness, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, hand_on)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
