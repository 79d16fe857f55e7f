"""A file system that fails, or ends the process, at a chosen step; the steps are found by running once and counting.

Rules:
1. Every operation of the seam is a step, and a write is two (half, then half), so that a crash can lie within it.
2. `before` sees a step before it happens: it may raise OSError, kill the process, or return a number of bytes for a
   short write.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cells.evidence.fs import Entry, FileSystem, Tree


@dataclass(frozen=True, slots=True)
class Step:
    """The number of a step (1-based), its operation, and the name it acts on where it has one."""

    number: int
    call: str
    name: str = ""


Before = Callable[[Step], int | None]


class SteppedTree:
    """A tree whose operations are steps."""

    def __init__(self, inner: Tree, step: Callable[[str, str], int | None]) -> None:
        self._inner, self._step = inner, step

    def entries(self, name: str = "") -> list[Entry]:
        self._step("entries", name)
        return self._inner.entries(name)

    def status(self, name: str = "") -> Entry:
        self._step("status", name)
        return self._inner.status(name)

    def open(self, name: str) -> int:
        self._step("open", name)
        return self._inner.open(name)

    def target(self, name: str) -> str:
        self._step("target", name)
        return self._inner.target(name)

    def close(self) -> None:
        self._inner.close()


class SteppedFileSystem:
    """A `FileSystem` that tells `before` about every operation."""

    def __init__(self, inner: FileSystem, before: Before) -> None:
        self._inner, self._before, self.steps = inner, before, 0

    def tree(self, root: Path) -> Tree:
        self._step("tree", str(root))
        return SteppedTree(self._inner.tree(root), self._step)

    def status(self, path: Path) -> Entry | None:
        self._step("status", str(path))
        return self._inner.status(path)

    def create(self, path: Path, mode: int = 0o440) -> int:
        self._step("create", str(path))
        return self._inner.create(path, mode)

    def open_append(self, path: Path, mode: int = 0o640) -> int:
        self._step("open_append", str(path))
        return self._inner.open_append(path, mode)

    def open_plain(self, path: Path) -> int:
        self._step("open_plain", str(path))
        return self._inner.open_plain(path)

    def read(self, handle: int, size: int) -> bytes:
        self._step("read")
        return self._inner.read(handle, size)

    def write(self, handle: int, content: bytes) -> int:
        short = self._step("write")
        if short is not None:
            return self._inner.write(handle, content[:short]) if short else 0
        half = len(content) // 2
        written = self._inner.write(handle, content[:half]) if half else 0
        self._step("write_rest")
        return written + self._inner.write(handle, content[half:])

    def seek(self, handle: int, offset: int) -> None:
        self._inner.seek(handle, offset)

    def truncate(self, handle: int, size: int) -> None:
        self._step("truncate")
        self._inner.truncate(handle, size)

    def size(self, handle: int) -> int:
        return self._inner.size(handle)

    def fsync(self, handle: int) -> None:
        self._step("fsync")
        self._inner.fsync(handle)

    def close(self, handle: int) -> None:
        self._inner.close(handle)

    def make_directory(self, path: Path, mode: int = 0o750) -> None:
        self._step("make_directory", str(path))
        self._inner.make_directory(path, mode)

    def sync_directory(self, path: Path) -> None:
        self._step("sync_directory", str(path))
        self._inner.sync_directory(path)

    def move_new(self, source: Path, destination: Path) -> None:
        self._step("move_new", str(destination))
        self._inner.move_new(source, destination)

    def replace(self, source: Path, destination: Path) -> None:
        self._step("replace", str(destination))
        self._inner.replace(source, destination)

    def link(self, source: Path, destination: Path) -> None:
        self._step("link", str(destination))
        self._inner.link(source, destination)

    def make_link(self, path: Path, target: str) -> None:
        self._step("make_link", str(path))
        self._inner.make_link(path, target)

    def unlink(self, path: Path) -> None:
        self._step("unlink", str(path))
        self._inner.unlink(path)

    def remove_directory(self, path: Path) -> None:
        self._step("remove_directory", str(path))
        self._inner.remove_directory(path)

    def set_mode(self, path: Path, mode: int) -> None:
        self._step("set_mode", str(path))
        self._inner.set_mode(path, mode)

    def _step(self, call: str, name: str = "") -> int | None:
        self.steps += 1
        return self._before(Step(self.steps, call, name))


def fail_at(number: int, code: int) -> Before:
    """Step `number` raises OSError with this errno."""

    def before(step: Step) -> None:
        if step.number == number:
            raise OSError(code, os.strerror(code), f"{step.call} {step.name}")

    return before


def fail_from(number: int, code: int, calls: frozenset[str]) -> Before:
    """From step `number` on, every operation in `calls` fails: a disk that stays full, a file system that became
    read-only."""

    def before(step: Step) -> None:
        if step.number >= number and step.call in calls:
            raise OSError(code, os.strerror(code), f"{step.call} {step.name}")

    return before


def short_write_at(number: int, bytes_written: int) -> Before:
    """The write at step `number` writes only so many bytes and says so; 0 is a write of nothing."""
    return lambda step: bytes_written if step.number == number and step.call == "write" else None


def kill_at(number: int) -> Before:
    """The process is gone before step `number` (SIGKILL: nothing of ours runs any more)."""

    def before(step: Step) -> None:
        if step.number == number:
            os.kill(os.getpid(), 9)

    return before


CHANGING = frozenset(
    {"create", "open_append", "write", "write_rest", "truncate", "fsync", "make_directory", "sync_directory"}
    | {"move_new", "replace", "link", "unlink", "remove_directory", "set_mode"}
)
"""Operations that a full or read-only file system refuses."""
ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EINTR)
