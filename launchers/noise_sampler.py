"""live/noise.jsonl: once a second, what the machine and the cell's control group looked like (25-formats, "Noise")."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from cells.artifacts import Writer
from cells.attempt import LiveAttempt
from cells.evidence.digest import canonical_json

NOISE_VERSION = 1
NAME = "live/noise.jsonl"
EVERY_S = 1.0

Counters = dict[str, int | float | None]


class NoiseSampler:
    """Writes rows when they are due; `clock` is time.monotonic(), `t_mono_s` counts from `started`."""

    def __init__(
        self,
        attempt: LiveAttempt,
        started: float,
        counters: Callable[[], Counters],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempt, self._started, self._counters, self._clock = attempt, started, counters, clock
        self._due = clock()
        self._peak: dict[str, float] = {}

    @property
    def due(self) -> float:
        """When the next row is due."""
        return self._due

    def sample_if_due(self, gateway: Mapping[str, Any] | None = None) -> None:
        """Write a row when its time has come; a late row does not bring a second one after it."""
        now = self._clock()
        if now >= self._due:
            self.sample("host", self._counters(), gateway)
            self._due = now + EVERY_S

    def sample(self, source: str, counters: Mapping[str, int | float | None], more: Mapping[str, Any] | None) -> None:
        """Write a row now. `source` is `host` or, for the last words of the first process, `cell`."""
        for name, value in counters.items():
            if value is not None:
                self._peak[name] = max(self._peak.get(name, value), value)
        row = {
            "v": NOISE_VERSION,
            "source": source,
            "t_mono_s": round(self._clock() - self._started, 3),
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "cell": dict(counters),
            "host": host_load(),
            **(dict(more) if more else {}),
        }
        self._attempt.append(NAME, canonical_json(row) + b"\n", Writer.SAMPLER, sync=False)

    def highest(self) -> dict[str, float]:
        """The highest value of each counter that was ever seen: counters of a control group only grow, pids do not."""
        return dict(self._peak)


def host_load() -> dict[str, float | int | None]:
    """Load averages of the machine and its number of cores (getloadavg(3))."""
    try:
        one, five, fifteen = os.getloadavg()
    except OSError:
        return {"load_1": None, "load_5": None, "load_15": None, "cores": os.cpu_count()}
    return {"load_1": round(one, 3), "load_5": round(five, 3), "load_15": round(fifteen, 3), "cores": os.cpu_count()}
