"""Canaries are made by several workers at the same moment."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from random import Random

import pytest

from scoring.canary import make_canary

HIDDEN = b"import mod\n\n\n" + b"".join(
    b"def test_%d():\n    assert [mod.f(n) for n in (1, 2, {'a': %d})] == [%d]\n\n\n" % (n, n, n) for n in range(120)
)


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads change places as often as they can, also inside the interpreter's own loops."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(1)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


class Finalized:
    """Garbage whose end runs bytecode: where it is collected, another thread may go on."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(20):
            pass


@pytest.mark.usefixtures("switching")
def test_workers_do_not_break_each_others_syntax_trees() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        for seed in range(10):
            Finalized()
            try:
                make_canary({b"test_mod.py": HIDDEN}, ("test_mod::test_1",), ("test_mod::test_2",), Random(seed))
            except SystemError as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
