"""A directory tree as a list of members with digests: what a task directory consists of, byte for byte.

Rules:
1. Members are regular files and symbolic links; a directory exists through what it holds (an empty one does not count).
2. A member is its path's bytes, its executable bit, and its content or link target; times, owners, other mode bits
   do not count.
3. Links must stay below the root given; devices, pipes, sockets and everything else are refused.
4. Nothing is followed: files are opened relative to their directory, without following links (30-evidence A16, A17).
5. The number, size and depth of members are capped.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote_from_bytes

from cells.errors import AssayError
from cells.evidence.digest import digest_bytes, digest_json, digest_stream

FILE, EXECUTABLE, LINK = 0o100644, 0o100755, 0o120000
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class TreeCaps:
    """What one tree may hold at most; sizes in bytes."""

    members: int = 200_000
    file_bytes: int = 1 << 30
    total_bytes: int = 4 << 30
    depth: int = 64


CAPS = TreeCaps()


class TreeProblem(AssayError):
    """A tree holds something that a task may not hold; `path` is relative to its root."""

    exit_code = 2

    def __init__(self, path: bytes, message: str) -> None:
        super().__init__(f"{shown(path)}: {message}")
        self.path, self.message = path, message


@dataclass(frozen=True)
class Member:
    """One file or link: `mode` is git's (100644, 100755, 120000), `sha256` of its content or of its target."""

    path: bytes
    mode: int
    size: int
    sha256: str
    target: bytes = b""


def walk_tree(root: Path, caps: TreeCaps = CAPS) -> tuple[Member, ...]:
    """All members below `root`, sorted by path bytes. TreeProblem for what a task may not hold; OSError as it comes."""
    members: list[Member] = []
    total = 0
    for path, name, directory in _entries(os.fsencode(root), caps.depth):
        member = _member(path, name, directory, caps)
        total += member.size
        members.append(member)
        if len(members) > caps.members:
            raise TreeProblem(path, f"more than {caps.members} files")
        if total > caps.total_bytes:
            raise TreeProblem(path, f"more than {caps.total_bytes} bytes in all")
    return tuple(sorted(members, key=lambda member: member.path))


def tree_index(members: Iterable[Member]) -> dict[str, list[str]]:
    """The members as JSON: path with odd bytes percent-encoded -> [mode, digest]."""
    return {encoded(member.path): [f"{member.mode:o}", member.sha256] for member in members}


def tree_digest(members: Iterable[Member]) -> str:
    """`sha256:<hex>` over every member's path, mode, link target and content."""
    return digest_json({"v": 1, "members": tree_index(members)})


def encoded(path: bytes) -> str:
    """A path as text, reversibly: everything but letters, digits and `/._-~` is percent-encoded."""
    return quote_from_bytes(path, safe="/")


def shown(path: bytes) -> str:
    """A path for a person."""
    return path.decode("utf-8", "backslashreplace")


def check_link(path: bytes, target: bytes) -> None:
    """TreeProblem when a link at `path` points out of the tree that `path` is relative to."""
    if not target or target.startswith(b"/"):
        raise TreeProblem(path, f"link to {shown(target)!r}; only links that stay inside the tree are allowed")
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if reached == b".." or reached.startswith(b"../"):
        raise TreeProblem(path, f"link to {shown(target)!r} leaves the tree")


def open_member(name: bytes, directory: int | None = None) -> IO[bytes]:
    """A regular file, opened without following a link in its last component."""
    descriptor = os.open(name, _OPEN, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TreeProblem(name, "is not a regular file any more")
    return os.fdopen(descriptor, "rb")


def _entries(root: bytes, depth: int) -> Iterator[tuple[bytes, bytes, int]]:
    """Path from the root, name, and open directory of each entry that is not a directory."""
    for where, directories, names, descriptor in os.fwalk(root, onerror=_raise, follow_symlinks=False):
        below = os.path.relpath(where, root)
        here = b"" if below == b"." else below + b"/"
        if here.count(b"/") > depth:
            raise TreeProblem(below, f"deeper than {depth} directories")
        links = [name for name in directories if _is_link(name, descriptor)]
        for name in sorted(names + links):
            yield here + name, name, descriptor


def _member(path: bytes, name: bytes, directory: int, caps: TreeCaps) -> Member:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=directory))
        return Member(path, LINK, len(target), digest_bytes(target), target)
    if not stat.S_ISREG(status.st_mode):
        raise TreeProblem(path, "neither a regular file nor a link; devices, pipes and sockets are refused")
    if status.st_size > caps.file_bytes:
        raise TreeProblem(path, f"{status.st_size} bytes; a file may have {caps.file_bytes}")
    mode = EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE
    with open_member(name, directory) as stream:
        return Member(path, mode, status.st_size, digest_stream(stream))


def _is_link(name: bytes, directory: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def _raise(error: OSError) -> None:
    raise error
