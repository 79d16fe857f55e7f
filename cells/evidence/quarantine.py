"""Quarantine: what cannot be trusted is moved aside, byte for byte, with the reason; never repaired, its identity
never given again.

Rules (30-evidence 33, 40):
1. Order: reason.json durable -> one rename of the thing itself -> parents fsynced -> `quarantined` row. Killed in
   between,
   `finish_quarantines` goes on from the reason.
2. An entry is `quarantine/<name>.<n>/{reason.json,content}`; n counts up, nothing is overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.fs import FileSystem, Kind, create_durable, make_directories, read_plain
from cells.evidence.ledger import Row
from cells.evidence.manifest import MANIFEST
from cells.evidence.roots import checked_path

if TYPE_CHECKING:
    from cells.evidence.study_store import StudyStore

FOLDER = "quarantine"
REASON, CONTENT = "reason.json", "content"
VERSION = 1


def quarantine(store: StudyStore, path: str, reason: str) -> str:
    """Move what lies at `path` (relative to the study) to quarantine; where it is kept, relative to the study."""
    store.require_writing()
    source = store.path / checked_path(path)
    if store.fs.status(source) is None:
        raise EvidenceError(f"{path}: asked to quarantine it; nothing is there")
    entry = _new_entry(store, path, reason)
    return _finish(store, entry, path, reason)


def finish_quarantines(store: StudyStore) -> list[str]:
    """Finish what a killed quarantine began: move what its reason names, and write the row that is missing."""
    store.require_writing()
    done: list[str] = []
    for entry, path, reason, moved in begun(store.path, store.ledger.rows(), store.fs):
        if moved or store.fs.status(store.path / path) is not None:
            kept = _finish(store, entry, path, reason)
            done.append(f"{path}: quarantine finished, kept at {kept}")
    return done


def begun(study: Path, rows: Iterable[Row], fs: FileSystem) -> Iterator[tuple[Path, str, str, bool]]:
    """Quarantines that were begun and have no row: (entry, path, reason, whether the thing was moved)."""
    recorded = {row.detail.get("kept") for row in rows if row.kind == "quarantined"}
    for entry in _entries(study / FOLDER, fs):
        if f"{FOLDER}/{entry.name}/{CONTENT}" in recorded:
            continue
        reason = _reason(entry, fs)
        if reason is not None:
            yield entry, reason["path"], reason["reason"], fs.status(entry / CONTENT) is not None


def _new_entry(store: StudyStore, path: str, reason: str) -> Path:
    folder = store.path / FOLDER
    make_directories(store.fs, folder)
    name = "--".join(part for part in path.split("/") if part not in (".stage", "cells", "attempts", "bundle"))
    number = 1
    while True:
        entry = folder / f"{name}.{number}"
        try:
            store.fs.make_directory(entry)
            break
        except FileExistsError:
            number += 1
    content = canonical_json({"v": VERSION, "path": path, "reason": reason})
    create_durable(store.fs, entry / REASON, content)
    store.fs.sync_directory(entry)
    store.fs.sync_directory(folder)
    return entry


def _finish(store: StudyStore, entry: Path, path: str, reason: str) -> str:
    source, destination = store.path / path, entry / CONTENT
    kept = f"{FOLDER}/{entry.name}/{CONTENT}"
    if store.fs.status(destination) is None:
        status = store.fs.status(source)
        if status is not None and status.kind is Kind.DIRECTORY:
            store.fs.set_mode(source, 0o750)  # a directory is moved by writing its `..`
        store.fs.move_new(source, destination)
    store.fs.sync_directory(entry)
    store.fs.sync_directory(source.parent)
    store.ledger.append("quarantined", path, _digest(store, destination), {"reason": reason, "kept": kept})
    return kept


def _digest(store: StudyStore, content: Path) -> str | None:
    """The digest of its manifest's bytes where there is one: the identity under which it was known."""
    try:
        return digest_bytes(read_plain(store.fs, content / MANIFEST))
    except (EvidenceError, OSError):
        return None


def _entries(folder: Path, fs: FileSystem) -> list[Path]:
    if fs.status(folder) is None:
        return []
    tree = fs.tree(folder)
    try:
        return [folder / entry.name for entry in tree.entries() if entry.kind is Kind.DIRECTORY]
    finally:
        tree.close()


def _reason(entry: Path, fs: FileSystem) -> dict[str, Any] | None:
    """Path and reason of an entry; None when it was cut off before its reason was whole (then nothing was moved)."""
    try:
        document = json.loads(read_plain(fs, entry / REASON))
        return {"path": checked_path(document["path"]), "reason": str(document["reason"])}
    except (EvidenceError, OSError, ValueError, KeyError, TypeError):
        return None
