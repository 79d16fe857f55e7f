"""Frozen tasks of a run, each opened and verified once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cells.tasks.frozen import FrozenTask


class TaskMemory:
    """Thread-safe memory of `read` (a frozen task by id, its digest verified)."""

    def __init__(self, read: Callable[[str], FrozenTask]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._tasks: dict[str, FrozenTask] = {}

    def task(self, task_id: str) -> FrozenTask:
        """The task; EvidenceError when its frozen directory was changed."""
        with self._lock:
            if task_id not in self._tasks:
                self._tasks[task_id] = self._read(task_id)
            return self._tasks[task_id]
