"""Canaries are made by several workers at the same moment."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import Iterator

import pytest

from scoring import canary


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads change places as often as they can, also inside the interpreter's own loops."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(1)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


class Garbage:
    """Its end runs bytecode: where it is collected, another thread may go on."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(20):
            pass


@pytest.mark.usefixtures("switching")
def test_workers_do_not_break_each_others_syntax_trees() -> None:
    source = inspect.getsource(canary)
    failures: list[SystemError] = []

    def work() -> None:
        for _ in range(30):
            Garbage()
            try:
                canary.syntax_tree(source)
            except SystemError as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
