"""One run of a command that executes a candidate's code, as an unprivileged user, and what it left when nothing of it
lives any more.

Rules:
1. The command gets its own session, /dev/null as stdin, a pipe as stdout and stderr, and no other descriptor of ours.
2. At its end, or at its deadline, every process of the user dies in one kill(-1) by a helper that was forked before
   the run:
   neither a fork bomb nor an exhausted pids limit can prevent it.
3. The report lies in a fresh directory whose descriptor was opened before the run. It is read after the kill: no link
   followed,
   a regular file with one link, owned by the user, capped.
4. Output beyond the cap is drained and counted, its beginning and its end are kept.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import time
from dataclasses import dataclass, field

from .pack import chunks_of

NOT_FOUND, NOT_EXECUTABLE = 127, 126
_READ = 1 << 16
_KILL_PATIENCE_S = 10.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REPORT = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class RunRequest:
    """A command with `{report}` and `{pack}` still in it; seconds and bytes."""

    command: list[str]
    workdir: str
    environment: dict[str, str]
    user: int
    timeout_s: float
    log_bytes: int
    report_bytes: int


@dataclass
class Log:
    """The beginning and the end of an output."""

    cap: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, content: bytes) -> None:
        """Take in what was read."""
        room = max(0, self.cap // 2 - len(self.head))
        self.head += content[:room]
        self.tail += content[room:]
        over = len(self.tail) - self.cap // 2
        if over > 0:
            self.dropped += over
            del self.tail[:over]

    def content(self) -> bytes:
        """What is kept, with a line that says what is not."""
        gap = b"\n[... %d bytes not kept ...]\n" % self.dropped if self.dropped else b""
        return bytes(self.head) + gap + bytes(self.tail)


@dataclass
class RunResult:
    """How it ended. `exit` is None at a timeout, negative for a signal; `report_state` is `read`, or why there is no
    report."""

    log: Log
    exit: int | None = None
    timed_out: bool = False
    survivors: int = 0
    """Processes that outlived the command."""
    duration_s: float = 0.0
    report_state: str = "missing"
    report: bytes = b""


def run_candidate(request: RunRequest, scratch: str, pack: str) -> RunResult:
    """Run to the end. `scratch` is a fresh directory of ours that the user may enter but not list."""
    home, reports = os.path.join(scratch, "home"), os.path.join(scratch, "report")
    for directory in (home, reports):
        os.mkdir(directory, 0o700)
        os.chown(directory, request.user, request.user)
    held = os.open(reports, _DIRECTORY)
    result = RunResult(Log(request.log_bytes))
    try:
        words = {"{report}": os.path.join(reports, "report"), "{pack}": pack}
        started = time.monotonic()
        _run(request, _filled(request.command, words), home, result)
        result.duration_s = time.monotonic() - started
        result.report_state, result.report = _read_report(held, request)
        return result
    finally:
        os.close(held)


def _filled(command: list[str], words: dict[str, str]) -> list[str]:
    filled = []
    for argument in command:
        for word, value in words.items():
            argument = argument.replace(word, value)
        filled.append(argument)
    return filled


def _run(request: RunRequest, command: list[str], home: str, result: RunResult) -> None:
    killer = Killer(request.user)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(reading, "rb", buffering=0):
        try:
            process = _spawn(request, command, home, writing)
        except OSError as error:
            killer.close()
            result.log.add(f"{command[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
            result.exit = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            return
        finally:
            os.close(writing)
        _prefer_for_oom(process.pid)
        result.timed_out = not _follow(process, reading, result.log, time.monotonic() + request.timeout_s)
        result.survivors = 0 if result.timed_out else len(processes_of(request.user))
        killer.kill_all(process)
        _drain(reading, result.log)
    result.exit = None if result.timed_out else process.returncode


def _spawn(request: RunRequest, command: list[str], home: str, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=request.workdir,
        env={**request.environment, "HOME": home, "PWD": request.workdir},
        user=request.user,
        group=request.user,
        extra_groups=[],
        start_new_session=True,
        umask=0o022,
    )


def _follow(process: subprocess.Popen[bytes], reading: int, log: Log, deadline: float) -> bool:
    """Read output and reap strays until the command ends (True) or its time is over (False)."""
    ended = os.pidfd_open(process.pid)
    watched = [ended, reading]
    try:
        while process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            ready, _, _ = select.select(watched, [], [], min(left, 0.5))
            if reading in ready:
                content = os.read(reading, _READ)
                log.add(content)
                if not content:
                    watched.remove(reading)
            _reap_strays(process.pid)
        return True
    finally:
        os.close(ended)


def _drain(reading: int, log: Log) -> None:
    """What the dead left in the pipe: it ends, since nobody holds its other side."""
    while content := os.read(reading, _READ):
        log.add(content)


def _reap_strays(main: int) -> None:
    """Reap orphans that became ours, but never the command itself."""
    while True:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None or found.si_pid == main:
            return
        os.waitpid(found.si_pid, os.WNOHANG)


def _prefer_for_oom(pid: int) -> None:
    """Where memory ends, the kernel takes the command and not us."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return


def _read_report(directory: int, request: RunRequest) -> tuple[str, bytes]:
    try:
        descriptor = os.open("report", _REPORT, dir_fd=directory)
    except FileNotFoundError:
        return "missing", b""
    except OSError as error:
        return f"not a plain file ({error.strerror})", b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != request.user:
            return "not a plain file of the tests' own", b""
        if status.st_size > request.report_bytes:
            return f"{status.st_size} bytes, allowed {request.report_bytes}", b""
        return "read", b"".join(chunks_of(descriptor))
    finally:
        os.close(descriptor)


class Killer:
    """A helper, forked beforehand, that becomes the user and kills everything the user runs. It holds no descriptor
    of ours."""

    def __init__(self, user: int) -> None:
        self._user = user
        self._pid, self._trigger = _fork_helper(user)

    def kill_all(self, main: subprocess.Popen[bytes]) -> None:
        """Kill all processes of the user and wait until they are gone, `main` among them. TimeoutError when they are
        not."""
        deadline = time.monotonic() + _KILL_PATIENCE_S
        while True:
            os.write(self._trigger, b"k")
            self.close()
            main.wait()
            _reap_all()
            if not processes_of(self._user):
                return
            if time.monotonic() > deadline:
                raise TimeoutError("processes of the tests outlived their kill")
            self._pid, self._trigger = _fork_helper(self._user)

    def close(self) -> None:
        """End the helper; safe twice."""
        if self._pid:
            os.close(self._trigger)
            os.waitpid(self._pid, 0)
            self._pid = 0


def _fork_helper(user: int) -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _wait_and_kill(reading, user)
    os.close(reading)
    return pid, writing


def _wait_and_kill(trigger: int, user: int) -> None:
    status = 1
    try:
        os.dup2(trigger, 0)
        os.closerange(1, 4096)
        if os.read(0, 1):
            os.close(0)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.kill(-1, signal.SIGKILL)
        status = 0
    finally:
        os._exit(status)


def _reap_all() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def processes_of(user: int) -> list[int]:
    """Processes of the user that still run; the dead that nobody reaped yet do not count."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _runs_as(name, user)]


def _runs_as(pid: str, user: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        return user in map(int, fields[b"Uid"].split()) and fields[b"State"].split()[0] not in (b"Z", b"X")
    except (OSError, KeyError, IndexError, ValueError):
        return False
