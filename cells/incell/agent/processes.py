"""Processes of the cell as its first process sees them: names, protection, starting, ending, counting.

Rules:
1. What the first process forks without exec cannot be traced and its descriptors cannot be opened by the agent's uid
   (prctl PR_SET_DUMPABLE 0): nobody but us writes to the launcher.
2. Our processes carry names of their own, so that `pkill python` of a model means the model's processes.
3. When the kernel must kill for memory, it takes the harness first (oom_score_adj), not the one who reports it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PR_SET_DUMPABLE, _PR_SET_NAME = 4, 15
_OOM_FIRST = b"500"
_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def protect(name: str) -> bool:
    """Take a name and close this process to its own uid; False where the image's Python lacks ctypes."""
    try:
        import ctypes
    except ImportError:
        return False
    library = ctypes.CDLL(None, use_errno=True)
    _overwrite_arguments(ctypes, name)
    library.prctl(_PR_SET_NAME, name.encode("ascii")[:15], 0, 0, 0)
    return bool(library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def companion(name: str, work: Callable[[], None]) -> int:
    """Fork a protected process of ours that does `work` for ever; its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        _default_signals()
        protect(name)
        work()
    finally:
        os._exit(70)


def sleep_for_ever() -> None:
    """The work of the guard: whoever kills it also meant to kill us."""
    while True:
        signal.pause()


def start(command: Sequence[str], environment: Mapping[str, str], directory: str, streams: Sequence[int]) -> int:
    """Fork and run a command in a session of its own; `streams` become its 0, 1, 2; its pid.

    What cannot be run ends with 127 (not found) or 126 (not executable) and says so on its stderr, as a shell does.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        _default_signals()
        _be_first_for_oom()
        os.umask(0o022)
        os.chdir(directory)
        os.execvpe(command[0], list(command), dict(environment))
    except FileNotFoundError as error:
        _say(f"{command[0]}: {error.strerror}\n")
        os._exit(127)
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}\n")
        os._exit(126)
    finally:
        os._exit(126)


def dismiss(pid: int, deadline: float) -> bool:
    """End a companion with SIGTERM; False when something else had ended it, or nothing does by `deadline`.

    SIGKILL that is on its way wins over SIGTERM (signal(7)), so that a kill just before is seen as what it was.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
    while time.monotonic() < deadline:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return False
        if ended:
            return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM
        time.sleep(0.0005)
    return False


def end_all(deadline: float) -> None:
    """Kill every process of the container but this one and wait for all; `deadline` on time.monotonic()."""
    if os.getpid() != 1:
        raise RuntimeError("asked to kill every process from one that is not PID 1 of a container")
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def living(ours: Sequence[int]) -> int:
    """How many processes of the container are alive, without this one and `ours`."""
    others = (name for name in os.listdir("/proc") if name.isdigit() and int(name) != 1 and int(name) not in ours)
    return sum(1 for name in others if _is_alive(name))


def usage(found: Any) -> dict[str, float]:
    """Resource usage of a waited-for process tree: seconds and MiB (getrusage(2): ru_maxrss is in KiB)."""
    return {
        "user_s": round(found.ru_utime, 6),
        "system_s": round(found.ru_stime, 6),
        "max_rss_mb": round(found.ru_maxrss / 1024, 3),
    }


def _overwrite_arguments(ctypes: Any, name: str) -> None:
    # proc(5), stat fields 48 and 49: where the kernel reads /proc/PID/cmdline from.
    with open("/proc/self/stat", "rb") as stream:
        fields = stream.read().rpartition(b")")[2].split()
    first, last = int(fields[45]), int(fields[46])
    if 0 < first < last:
        ctypes.memmove(first, name.encode("ascii")[: last - first - 1].ljust(last - first, b"\0"), last - first)


def _be_first_for_oom() -> None:
    with contextlib.suppress(ImportError, OSError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else its own /proc files are root's
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as stream:
            stream.write(_OOM_FIRST)


def _default_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)


def _is_alive(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "replace"))
