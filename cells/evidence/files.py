"""Durable files of our own: create-only writes, appends and replacements that survive a crash.

Rules:
1. A new file is created with O_EXCL and O_NOFOLLOW, written whole, fsynced; a short write is an error.
2. Derived files (catalog, latest, tables) are replaced by temporary file + fsync + rename + fsync of the directory.
3. Append-only records are written in one write call and fsynced.
4. `read_regular` opens nothing but a regular file with one link, never through a link in its last component.
"""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_new(path: Path, content: bytes, mode: int = 0o440) -> None:
    """Create a file and make its bytes durable; FileExistsError when it exists. The parent must exist."""
    descriptor = os.open(path, _NEW, mode)
    try:
        _write_all(descriptor, content, path)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path, content: bytes, *, sync: bool = True, mode: int = 0o640) -> None:
    """Append bytes to a record of ours in one write."""
    descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        _write_all(descriptor, content, path)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, content: bytes, mode: int = 0o640) -> None:
    """Replace a derived file: readers see the old or the new bytes, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    write_new(temporary, content, mode)
    os.replace(temporary, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the entries of a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a regular, singly linked file; `EvidenceError` for anything else or for more than `limit` bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be opened as a plain file ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise EvidenceError(
                f"{path}: expected a regular file with one link, found mode {status.st_mode:o}, {status.st_nlink} links"
            )
        if limit is not None and status.st_size > limit:
            raise EvidenceError(f"{path}: {status.st_size} bytes, allowed {limit}")
        return stream.read()


def read_json(path: Path) -> Any:
    """A JSON document of ours; `EvidenceError` names the file when it is not JSON."""
    try:
        return json.loads(read_regular(path))
    except ValueError as error:
        raise EvidenceError(f"{path}: not JSON ({error})") from error


def _write_all(descriptor: int, content: bytes, path: Path) -> None:
    view = memoryview(content)
    while view:
        written = os.write(descriptor, view)
        if written <= 0:
            raise OSError(f"{path}: short write")
        view = view[written:]
