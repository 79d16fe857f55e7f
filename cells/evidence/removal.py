"""Removing a tree of ours: no link followed, no mount crossed, and only what was looked at.

Rules (30-evidence 49):
1. Every directory is listed without following links; a link or a special file is an entry that is unlinked, never
   entered.
2. A directory on another device than the root stops the removal before anything is removed.
"""

from __future__ import annotations

from pathlib import Path

from cells.errors import EvidenceError
from cells.evidence.fs import Entry, FileSystem, Kind, walk
from cells.evidence.fs_real import REAL


def inventory(root: Path, fs: FileSystem = REAL) -> list[Entry]:
    """Every entry below a directory, parents first; `EvidenceError` when something lies on another device."""
    tree = fs.tree(root)
    try:
        device = tree.status("").device
        found = list(walk(tree))
    finally:
        tree.close()
    for entry in found:
        if entry.device != device:
            raise EvidenceError(f"{root / entry.name}: a mount point; nothing below a mount is removed")
    return found


def remove_tree(root: Path, fs: FileSystem = REAL) -> int:
    """Remove a directory of ours and everything below it; the number of entries removed. Absent is 0: a resumed
    removal ends here."""
    status = fs.status(root)
    if status is None:
        return 0
    if status.kind is not Kind.DIRECTORY:
        raise EvidenceError(f"{root}: expected a directory to remove, found a {status.kind}")
    found = inventory(root, fs)
    for directory in (root, *(root / entry.name for entry in found if entry.kind is Kind.DIRECTORY)):
        fs.set_mode(directory, 0o750)
    for entry in reversed(found):
        path = root / entry.name
        if entry.kind is Kind.DIRECTORY:
            fs.remove_directory(path)
        else:
            fs.unlink(path)
    fs.remove_directory(root)
    return len(found) + 1
