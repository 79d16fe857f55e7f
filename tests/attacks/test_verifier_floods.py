"""A candidate's code tries to bring the verifier down, so that nobody can say that it failed; and to reach what is
not its own."""

from __future__ import annotations

import pytest

from cells.outcome import Verdict
from scoring.judge import BROKE, FAILED
from tests.scoring.calc_task import RIGHT, WRONG, Bench

pytestmark = [pytest.mark.engine, pytest.mark.attack]

IN_TESTS = b"import os, signal, sys, time\nif 'pytest' in sys.modules:\n"


def _attack(*lines: str) -> bytes:
    return WRONG + IN_TESTS + "".join(f"    {line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    "lines",
    [
        ("while True:", "    try: os.fork()", "    except OSError: time.sleep(0.01)"),
        ("hog = []", "while True: hog.append(bytearray(1 << 24))"),
        ("os.kill(-1, signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGKILL)"),
        ("os.kill(os.getppid(), signal.SIGKILL)", "os.kill(1, signal.SIGKILL)", "os._exit(0)"),
        ("os.kill(os.getpid(), signal.SIGSTOP)",),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "os.setsid() if os.fork() else None", "time.sleep(1000)"),
    ],
    ids=["fork bomb", "memory", "kills all it can", "kills PID 1", "stops itself", "ignores and hides"],
)
def test_no_way_to_fall_makes_it_anything_but_failed(calc: Bench, lines: tuple[str, ...]) -> None:
    """Naive: no report, no exit code, a container that died: an infrastructure fault, tried again."""
    found = calc.verify({"src/calc.py": _attack(*lines)}, verify_s=4.0, pids=64, memory_mb=192)
    assert found.verdict is Verdict.UNRESOLVED, found
    assert found.reason == BROKE


def test_output_without_end_is_cut(calc: Bench) -> None:
    """Naive: the log of the run is kept whole."""
    found = calc.verify(
        {"src/calc.py": _attack("os.write(2, b'start ') and None", "[os.write(2, b'x' * 65536) for _ in range(900)]")}
    )
    assert found.candidate is not None and len(found.candidate.log) < 2 << 20
    assert found.verdict is Verdict.UNRESOLVED


def test_a_full_disk_is_no_way_out(calc: Bench) -> None:
    """Naive: the report could not be written, so the verifier failed."""
    fill = (
        "for where in ('/tmp/fill', 'fill'):",
        "    try: open(where, 'wb').write(bytes(1 << 28))",
        "    except OSError: pass",
    )
    found = calc.verify({"src/calc.py": _attack(*fill)})
    assert found.verdict is Verdict.UNRESOLVED


@pytest.mark.parametrize(
    "line",
    [
        "open('/proc/1/fd/1', 'wb').write(b'{\"type\": \"ran\"}')",
        "open('/proc/1/mem', 'rb').read(10)",
        "open('/proc/1/environ', 'rb').read(10)",
        "os.listdir('/proc/1/fd')",
        "os.setuid(0)",
        "open('/assay/base/x', 'w')",
        "open('/assay/incell/verifier.py', 'a')",
        "os.listdir('/tmp/' + [name for name in os.listdir('/tmp') if name.startswith('assay-')][0])",
        "__import__('socket').create_connection(('169.254.169.254', 80), 1)",
        "os.chroot('/tmp')",
        "__import__('ctypes').CDLL(None).mount and os.mknod('/tmp/device', 0o60600, os.makedev(8, 0))",
    ],
)
def test_what_the_tests_cannot_reach(calc: Bench, line: str) -> None:
    """Naive: the tests run as who runs the verifier. Here the right fix stands only if the attempt is refused."""
    refused = f"    try: {line}\n    except OSError: pass\n    else: os._exit(3)\n".encode()
    found = calc.verify({"src/calc.py": IN_TESTS + refused + RIGHT})
    assert found.verdict is Verdict.RESOLVED, found.candidate


def test_files_of_an_earlier_run_are_gone(calc: Bench) -> None:
    """The self-check leaves nothing in /tmp or in the tree for the candidate to find, and the next container nothing
    at all."""
    leave = "open('/tmp/left', 'w').close() or open('left', 'w').close()"
    assert calc.verify({"src/calc.py": _attack(leave)}).reason == FAILED
    look = "os._exit(3) if os.path.exists('/tmp/left') or os.path.exists('left') else None"
    assert calc.verify({"src/calc.py": IN_TESTS + f"    {look}\n".encode() + RIGHT}).verdict is Verdict.RESOLVED
