"""The files of a directory of ours, found without following anything: names, kinds, digests.

Rules:
1. Only directories and regular files with one link are members; a link, fifo, socket or device is `EvidenceError`, by
   name.
2. Nothing is skipped in silence: an unreadable or too deep directory is `EvidenceError`.
3. Names on disk are the safe names of `cells.artifacts.pattern`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from cells.artifacts.pattern import MAX_DEPTH
from cells.errors import EvidenceError
from cells.evidence.digest import digest_stream

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def member_names(root: Path, folder: str = "") -> list[str]:
    """Sorted names, relative to `root`, of all files under `root/folder`; none when the folder does not exist."""
    top = root / folder if folder else root
    try:
        status = top.lstat()
    except FileNotFoundError:
        return []
    if not stat.S_ISDIR(status.st_mode):
        raise EvidenceError(f"{top}: expected a directory, found mode {status.st_mode:o}")
    return sorted(_walk(top, folder, 0))


def digests(root: Path, names: Iterator[str] | list[str]) -> dict[str, str]:
    """`{name: sha256:...}` of files under `root`."""
    return {name: digest_regular(root / name) for name in names}


def digest_regular(path: Path) -> str:
    """Digest of a regular file with one link; `EvidenceError` for anything else."""
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be opened as a plain file ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise EvidenceError(
                f"{path}: expected a regular file with one link, found mode {status.st_mode:o}, {status.st_nlink} links"
            )
        return digest_stream(stream)


def _walk(directory: Path, prefix: str, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise EvidenceError(f"{directory}: more than {MAX_DEPTH} directories deep")
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        raise EvidenceError(f"{directory}: cannot be listed ({error.strerror})") from error
    for entry in entries:
        name = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), name, depth + 1)
        elif entry.is_file(follow_symlinks=False):
            yield name
        else:
            mode = entry.stat(follow_symlinks=False).st_mode
            raise EvidenceError(f"{entry.path}: expected a file or a directory, found mode {mode:o}")
