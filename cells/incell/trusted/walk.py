"""Walk of a tree that a cell wrote: by directory descriptors, names as bytes, no link followed, everything left out
is said.

Rules:
1. Every entry is yielded once, in the order of its name within its directory, or counted as left out with a reason.
2. A `.git` entry at any depth, in any case of letters, is left out (`git`), as is a `.gitmodules` that is a link: git
   itself refuses both.
3. A directory below `depth` levels or a path over `path_bytes` is left out (`too_deep`) at its top, never in silence.
4. More than `entries` entries end the walk: TooManyEntries.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SPECIAL = {
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


class TooManyEntries(Exception):
    """The tree holds more entries than the cap."""


@dataclass(frozen=True)
class WalkLimits:
    """Caps of one walk: entries in all, levels of directories, bytes of one path."""

    entries: int = 200_000
    depth: int = 200
    path_bytes: int = 4000


@dataclass(frozen=True)
class Entry:
    """A directory, regular file or link. `directory` is the open descriptor of its parent: valid only until the next
    entry is asked for."""

    path: bytes
    kind: str
    """`dir`, `file` or `link`."""
    executable: bool
    size: int
    links: int
    directory: int
    name: bytes

    def open(self) -> int:
        """A descriptor of this regular file; OSError when it is none any more."""
        descriptor = os.open(self.name, _FILE, dir_fd=self.directory)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{self.path!r} is no regular file any more")
        return descriptor

    def target(self) -> bytes:
        """What this link says, as bytes."""
        return os.readlink(self.name, dir_fd=self.directory)


LeftOut = Callable[[bytes, str], None]
"""Told of each entry that is left out: path and reason (`git`, `too_deep`, or the kind of a special file)."""


def walk(root: str, limits: WalkLimits, left_out: LeftOut) -> Iterator[Entry]:
    """The entries below `root` in depth-first order, parents before children."""
    descriptor = os.open(root, _DIRECTORY)
    counter = _Counter(limits.entries)
    stack = [(descriptor, b"", iter(_sorted_names(descriptor, counter)))]
    try:
        while stack:
            directory, prefix, names = stack[-1]
            name = next(names, None)
            if name is None:
                os.close(stack.pop()[0])
                continue
            entry = _entry(directory, prefix, name, left_out)
            if entry is None:
                continue
            if entry.kind == "dir" and (len(stack) >= limits.depth or len(entry.path) > limits.path_bytes):
                left_out(entry.path, "too_deep")
                continue
            if len(entry.path) > limits.path_bytes:
                left_out(entry.path, "too_deep")
                continue
            yield entry
            if entry.kind == "dir":
                child = os.open(name, _DIRECTORY, dir_fd=directory)
                stack.append((child, entry.path + b"/", iter(_sorted_names(child, counter))))
    finally:
        for directory, _, _ in stack:
            os.close(directory)


class _Counter:
    def __init__(self, limit: int) -> None:
        self.left = limit

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise TooManyEntries


def _sorted_names(directory: int, counter: _Counter) -> list[bytes]:
    names = []
    with os.scandir(directory) as entries:
        for entry in entries:
            counter.take(1)
            names.append(os.fsencode(entry.name))
    return sorted(names)


def _entry(directory: int, prefix: bytes, name: bytes, left_out: LeftOut) -> Entry | None:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    kind = stat.S_IFMT(status.st_mode)
    path = prefix + name
    lower = name.lower()
    if lower == b".git" or (lower == b".gitmodules" and kind == stat.S_IFLNK):
        left_out(path, "git")
        return None
    word = {stat.S_IFDIR: "dir", stat.S_IFREG: "file", stat.S_IFLNK: "link"}.get(kind)
    if word is None:
        left_out(path, _SPECIAL.get(kind, "special"))
        return None
    return Entry(path, word, bool(status.st_mode & 0o100), status.st_size, status.st_nlink, directory, name)
