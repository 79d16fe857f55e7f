"""What is going on in a run: phases of running cells, for the progress bar and for `assay status` in another terminal.

The file is a convenience (it says what runs now); what happened is told by bundles and ledger.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers.labels import this_process

PHASES = ("prepare", "launch", "run", "seal", "collect", "gate", "verify", "score", "publish")


@dataclass
class _Running:
    attempt: str
    phase: str
    began: float
    phase_began: float
    seconds: dict[str, float] = field(default_factory=dict)


class Board:
    """Thread-safe; every change rewrites one small file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._facts: dict[str, Any] = {}

    def enter(self, cell: str, attempt: str, phase: str) -> None:
        """A cell (its directory name) enters a phase; the phase before it ends."""
        now = time.monotonic()
        with self._lock:
            row = self._running.get(cell)
            if row is None or row.attempt != attempt:
                self._running[cell] = _Running(attempt, phase, now, now)
            else:
                row.seconds[row.phase] = row.seconds.get(row.phase, 0.0) + now - row.phase_began
                row.phase, row.phase_began = phase, now
            self._save()

    def leave(self, cell: str) -> dict[str, float]:
        """The cell is done; seconds by phase."""
        with self._lock:
            row = self._running.pop(cell, None)
            if row is not None:
                row.seconds[row.phase] = row.seconds.get(row.phase, 0.0) + time.monotonic() - row.phase_began
            self._save()
        return row.seconds if row is not None else {}

    def seconds(self, cell: str) -> dict[str, float]:
        """Seconds by phase so far, the running one included."""
        with self._lock:
            row = self._running.get(cell)
            if row is None:
                return {}
            return row.seconds | {row.phase: row.seconds.get(row.phase, 0.0) + time.monotonic() - row.phase_began}

    def note(self, **facts: Any) -> None:
        """Facts beside the cells: workers, paused, withheld tasks."""
        with self._lock:
            if any(self._facts.get(key) != value for key, value in facts.items()):
                self._facts.update(facts)
                self._save()

    def running(self) -> list[dict[str, Any]]:
        """Running cells: cell, attempt, phase, ages in seconds."""
        with self._lock:
            return self._rows()

    def close(self) -> None:
        """Nothing runs any more."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def _rows(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        return [
            {
                "cell": cell,
                "attempt": row.attempt,
                "phase": row.phase,
                "age_s": round(now - row.began, 1),
                "phase_age_s": round(now - row.phase_began, 1),
            }
            for cell, row in self._running.items()
        ]

    def _save(self) -> None:
        content = {"owner": this_process().label(), "at_unix": time.time(), "running": self._rows(), **self._facts}
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(content))
        os.replace(temporary, self._path)
