"""Group commit: making appended bytes durable in threads, one sync for everything that was appended before it began.

Rules:
1. Whoever waits gets a sync that began after its bytes were written; waiters that come meanwhile share the next one.
2. Syncs of several files and cells run side by side; the file system joins them into one commit of its journal.
3. A sync that failed is final: the file's state is unknown, so every later wait fails, too, and the cell is lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field


class RecordLost(Exception):
    """The record cannot be made durable."""


@dataclass
class GroupCommit:
    """The syncs of one cell's files; `dirty` gives the descriptors with bytes that are not durable, and forgets
    them."""

    executor: Executor
    dirty: Callable[[], list[int]]
    _written: int = 0
    _durable: int = 0
    _running: asyncio.Future[None] | None = None
    _broken: OSError | None = None
    syncs: int = 0

    def written(self) -> int:
        """Note that bytes were appended; the mark to wait for."""
        self._written += 1
        return self._written

    async def durable(self, mark: int) -> None:
        """Return when everything up to the mark is durable. `RecordLost` when a sync failed."""
        while self._durable < mark:
            if self._broken is not None:
                raise RecordLost(str(self._broken)) from self._broken
            if self._running is None:
                self._running = asyncio.ensure_future(self._sync())
            await asyncio.shield(self._running)

    async def _sync(self) -> None:
        target, loop = self._written, asyncio.get_running_loop()
        try:
            syncs = (loop.run_in_executor(self.executor, os.fdatasync, one) for one in self.dirty())
            await asyncio.gather(*syncs)
            self._durable = max(self._durable, target)
            self.syncs += 1
        except OSError as error:
            self._broken = error
        finally:
            self._running = None


@dataclass
class GrowingFile:
    """A file of ours that only grows, created by us, opened without following links."""

    descriptor: int
    size: int = 0
    dirty: bool = False
    _pending: list[bytes] = field(default_factory=list)

    @classmethod
    def create(cls, path: os.PathLike[str]) -> GrowingFile:
        """Open a new or empty file; FileExistsError when something stands in it already."""
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o640)
        if os.fstat(descriptor).st_size:
            os.close(descriptor)
            raise FileExistsError(f"{path}: a record is begun once; something stands in it already")
        return cls(descriptor)

    def add(self, content: bytes) -> None:
        """Keep bytes for the next `flush`."""
        if content:
            self._pending.append(content)
            self.size += len(content)

    def flush(self) -> None:
        """Write what was kept. OSError as the file system says; a short write is one."""
        if not self._pending:
            return
        content = b"".join(self._pending)
        self._pending.clear()
        view = memoryview(content)
        while view:
            view = view[os.write(self.descriptor, view) :]
        self.dirty = True

    def close(self) -> None:
        os.close(self.descriptor)
