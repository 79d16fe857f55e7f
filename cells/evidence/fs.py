"""The file system as evidence sees it: every operation that can fail or be lost, as a protocol, so that faults can
be injected at each.

Rules:
1. Evidence code touches the disk only through a `FileSystem`; the real one is `fs_real.REAL`, others fail at the
   n-th call (`fs_faults`)
   or forget what was not fsynced (`fs_model`).
2. Below a directory, names are opened through its `Tree`: never through a link, never across a mount, never `..`.
3. Names are POSIX paths relative to the tree's root; bytes that are not UTF-8 are surrogates here and
   percent-encoded in manifests.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from cells.errors import EvidenceError

CHUNK = 1 << 20


class Kind(StrEnum):
    """What stands under a name; LINK is a symbolic link, SPECIAL everything that is not a file, directory or link."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    SPECIAL = "special"


@dataclass(frozen=True, slots=True)
class Entry:
    """One directory entry as lstat sees it. `size` in bytes; `changed_ns` is the ctime; `name` is relative to the
    tree's root."""

    name: str
    kind: Kind
    size: int
    links: int
    device: int
    inode: int
    mode: int
    changed_ns: int


class Tree(Protocol):
    """A directory held open; names below it are reached without following links."""

    def entries(self, name: str = "") -> list[Entry]:
        """The entries of a directory, sorted by name; their names are relative to the tree's root."""

    def status(self, name: str = "") -> Entry:
        """The entry itself (not what it links to); FileNotFoundError when absent."""

    def open(self, name: str) -> int:
        """A handle for reading a plain file; OSError (ELOOP, EXDEV, ...) for anything reached through a link or a
        mount."""

    def target(self, name: str) -> str:
        """What a symbolic link says, as text; it is never followed."""

    def close(self) -> None:
        """Let go of the directory; safe twice."""


class FileSystem(Protocol):
    """The operations of evidence. Handles are small integers; all raise OSError."""

    def tree(self, root: Path) -> Tree: ...

    def status(self, path: Path) -> Entry | None: ...

    def create(self, path: Path, mode: int = 0o440) -> int: ...

    def open_append(self, path: Path, mode: int = 0o640) -> int: ...

    def open_plain(self, path: Path) -> int: ...

    def read(self, handle: int, size: int) -> bytes: ...

    def write(self, handle: int, content: bytes) -> int: ...

    def seek(self, handle: int, offset: int) -> None: ...

    def truncate(self, handle: int, size: int) -> None: ...

    def size(self, handle: int) -> int: ...

    def fsync(self, handle: int) -> None: ...

    def close(self, handle: int) -> None: ...

    def make_directory(self, path: Path, mode: int = 0o750) -> None: ...

    def sync_directory(self, path: Path) -> None: ...

    def move_new(self, source: Path, destination: Path) -> None:
        """Rename; FileExistsError when the destination exists (RENAME_NOREPLACE)."""

    def replace(self, source: Path, destination: Path) -> None: ...

    def link(self, source: Path, destination: Path) -> None: ...

    def make_link(self, path: Path, target: str) -> None:
        """A symbolic link, as data of a frozen task; never followed here."""

    def unlink(self, path: Path) -> None: ...

    def remove_directory(self, path: Path) -> None: ...

    def set_mode(self, path: Path, mode: int) -> None: ...


def walk(tree: Tree, name: str = "") -> Iterator[Entry]:
    """Every entry below a directory, parents before children, sorted; directories on another device are named, not
    entered."""
    device = tree.status("").device
    pending = [name]
    while pending:
        inner: list[str] = []
        for entry in tree.entries(pending.pop()):
            yield entry
            if entry.kind is Kind.DIRECTORY and entry.device == device:
                inner.append(entry.name)
        pending.extend(reversed(inner))


def read_handle(fs: FileSystem, handle: int) -> bytes:
    """All bytes from here to the end."""
    parts: list[bytes] = []
    while part := fs.read(handle, CHUNK):
        parts.append(part)
    return b"".join(parts)


def digest_handle(fs: FileSystem, handle: int) -> tuple[str, int]:
    """SHA-256 as hex and the number of bytes read."""
    state, count = sha256(), 0
    while part := fs.read(handle, CHUNK):
        state.update(part)
        count += len(part)
    return state.hexdigest(), count


def write_handle(fs: FileSystem, handle: int, content: bytes) -> None:
    """Write all of it; a short write is continued, a write of nothing is an error."""
    view = memoryview(content)
    while view:
        written = fs.write(handle, bytes(view))
        if written <= 0:
            raise OSError(errno.EIO, "short write")
        view = view[written:]


def create_durable(fs: FileSystem, path: Path, content: bytes, mode: int = 0o440) -> None:
    """A new file, whole and fsynced; FileExistsError when it exists. The caller syncs the directory."""
    handle = fs.create(path, mode)
    try:
        write_handle(fs, handle, content)
        fs.fsync(handle)
    finally:
        fs.close(handle)


def replace_derived(fs: FileSystem, path: Path, content: bytes, *, mark: str, durable: bool = True) -> None:
    """Replace a derived file; readers see the old or the new bytes. `mark` makes the temporary name unique among
    writers."""
    temporary = path.with_name(f".{path.name}.{mark}")
    handle = fs.create(temporary, 0o640)
    try:
        write_handle(fs, handle, content)
        if durable:
            fs.fsync(handle)
    finally:
        fs.close(handle)
    fs.replace(temporary, path)
    if durable:
        fs.sync_directory(path.parent)


def make_directories(fs: FileSystem, path: Path, mode: int = 0o750) -> None:
    """The directory and its missing parents, each made durable in its parent; what exists must be a directory, not a
    link."""
    found = fs.status(path)
    if found is None:
        make_directories(fs, path.parent, mode)
        try:
            fs.make_directory(path, mode)
        except FileExistsError:
            found = fs.status(path)
        fs.sync_directory(path.parent)
    if found is not None and found.kind is not Kind.DIRECTORY:
        raise EvidenceError(f"{path}: expected a directory, found a {found.kind}")


def read_plain(fs: FileSystem, path: Path, limit: int | None = None) -> bytes:
    """The bytes of a plain file with one link; `EvidenceError` for anything else or for more than `limit` bytes."""
    status = fs.status(path)
    if status is None:
        raise EvidenceError(f"{path}: expected a file, found nothing")
    if status.kind is not Kind.FILE or status.links != 1:
        raise EvidenceError(f"{path}: expected a plain file with one link, found a {status.kind} with {status.links}")
    if limit is not None and status.size > limit:
        raise EvidenceError(f"{path}: {status.size} bytes, allowed {limit}")
    handle = fs.open_plain(path)
    try:
        return read_handle(fs, handle)
    finally:
        fs.close(handle)
