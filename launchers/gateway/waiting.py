"""The time in which a cell waits for its provider: the union of the waits of all its exchanges, never their sum.

What counts is waiting for the provider only: time in which the client reads slowly is the cell's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class WaitingClock:
    """Seconds in which at least one exchange waited."""

    now: Callable[[], float] = time.monotonic
    _done: float = 0.0
    _since: float = 0.0
    _waits: int = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The block inside waits for the provider."""
        if self._waits == 0:
            self._since = self.now()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if self._waits == 0:
                self._done += self.now() - self._since

    @property
    def seconds(self) -> float:
        """So far, a wait under way included."""
        return self._done + (self.now() - self._since if self._waits else 0.0)
