"""What set-up says while it works: one line on stderr when a step ends, with its seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO


@dataclass
class Step:
    """A step that is under way; `outcome` is what its line will say, in a few words."""

    name: str
    outcome: str = "done"


@dataclass(frozen=True)
class Steps:
    """Writes the lines. Steps may run in several threads at once. `clock` gives seconds, monotonic."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time the block; its line says `failed` when the block raises."""
        started, step = self.clock(), Step(name)
        try:
            yield step
        except BaseException:
            self._line(name, "failed", self.clock() - started)
            raise
        self._line(name, step.outcome, self.clock() - started)

    def say(self, line: str) -> None:
        """A line that belongs to no step."""
        with self._lock:
            print(f"   {line}", file=self.stream, flush=True)

    def _line(self, name: str, outcome: str, seconds: float) -> None:
        with self._lock:
            print(f"-- {name:<12} {seconds:6.1f} s  {outcome}", file=self.stream, flush=True)
