"""Task images of a run: each built at most once, when its first cell needs it; a failed build loses only its cells.

A task whose cells are not selected is never looked at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from cells.errors import InfraFailure
from cells.tasks.frozen import FrozenTask
from cells.tasks.image import TaskImage

Builder = Callable[[FrozenTask], TaskImage]


class ImageShelf:
    """Thread-safe memory of `build`: the same task is built once, whoever asks first; failures are remembered too."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._per_task: dict[str, threading.Lock] = {}
        self._images: dict[str, TaskImage | InfraFailure] = {}

    def image(self, task: FrozenTask) -> TaskImage:
        """The image of the task. InfraFailure("image_build") with the build log when it cannot be built."""
        with self._lock:
            mine = self._per_task.setdefault(task.sha256, threading.Lock())
        with mine:
            found = self._images.get(task.sha256)
            if found is None:
                found = self._images[task.sha256] = self._built(task)
        if isinstance(found, InfraFailure):
            raise found
        return found

    def _built(self, task: FrozenTask) -> TaskImage | InfraFailure:
        try:
            return self._build(task)
        except InfraFailure as failure:
            return failure
