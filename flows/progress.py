"""Progress of a run for people, on stderr: a live bar in a terminal, one line a cell elsewhere. Never a verdict."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from flows.text import duration, money

Line = Callable[[str], None]
_REFRESH_S = 0.5


class Progress:
    """Counts what ended; thread-safe. `write` prints one line."""

    def __init__(self, total: int, done: int, write: Line, running: Callable[[], list[dict[str, Any]]]) -> None:
        self._total, self._before, self._write, self._running = total, done, write, running
        self._began = time.monotonic()
        self._ended: Counter[str] = Counter()
        self._spent: Decimal | None = None
        self._currency: str | None = None
        self._lock = threading.Lock()
        self.quiet_lines = False

    def ended(self, cell: str, outcome: str, cost: str | None, currency: str | None) -> None:
        """An attempt of a cell ended with this outcome and cost."""
        with self._lock:
            self._ended[outcome] += 1
            if cost is not None:
                self._spent = (self._spent or Decimal(0)) + Decimal(cost)
                self._currency = currency
            line = f"[{self.done}/{self._total}] {cell}: {outcome}"
        if not self.quiet_lines:
            self._write(line)

    @property
    def done(self) -> int:
        """Cells with an accepted attempt."""
        return self._before + sum(count for outcome, count in self._ended.items() if outcome != "infra_lost")

    def line(self) -> str:
        """Everything in one line."""
        with self._lock:
            endings = ", ".join(f"{outcome} {count}" for outcome, count in self._ended.most_common())
            parts = [f"{self.done}/{self._total} cells", f"{len(self._running())} running", endings]
            if self._spent is not None:
                parts.append(f"spent {money(self._spent, self._currency)}")
            parts.append(f"left about {duration(self._left())}")
        return " | ".join(part for part in parts if part)

    def _left(self) -> float | None:
        new = self.done - self._before
        return (time.monotonic() - self._began) / new * (self._total - self.done) if new else None


@contextmanager
def shown(progress: Progress) -> Iterator[None]:
    """Show the bar while the body runs, where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    progress.quiet_lines = True
    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=1 / _REFRESH_S, get_renderable=lambda: Text(progress.line())):
        yield
