"""Purge: evidence removed for good, journal first, tombstone last, resumable wherever it was cut off.

Rules (30-evidence 49; saved-files "yuj purge"):
1. Order: `purging` row (what, how much, digest of the list) -> each path moved to .stage/purge/<row>/ by one rename
   -> directories
   fsynced -> entries removed without following links -> `purged` row, the tombstone, last.
2. Once journaled a purge can only be finished: the same command goes on from what the journal and the disk say.
3. Ledger, frozen documents and signatures stay: what was asked and which bundles existed is kept, their bytes are not.
   A purge removes nothing outside the study, and starts nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cells.errors import EvidenceError, UsageError
from cells.evidence.fs import Kind, make_directories
from cells.evidence.lifecycle.purge_target import Bounds, Preview, Target, find_target, preview
from cells.evidence.removal import remove_tree
from cells.evidence.study_store import STAGE, StudyStore

_FOLDER = "purge"


@dataclass(frozen=True)
class Purged:
    """What was removed."""

    subject: str
    entries: int
    size: int
    resumed: bool


def purge(store: StudyStore, identity: str, confirm: str, bounds: Bounds | None = None) -> Purged:
    """Remove what a full id names. UsageError unless the id is given twice, EvidenceError with every reason that
    refuses it.

    The caller holds the study's lock (`Busy` otherwise: a running study is not purged).
    """
    store.require_writing()
    if identity != confirm:
        raise UsageError(f"purge: asked for {identity}, confirmed {confirm}; the same full id is needed twice")
    target = find_target(store, identity)
    subject = target.subject
    if subject in store.history().tombstones:
        return Purged(subject, 0, 0, resumed=True)
    journal = store.history().purging.get(subject)
    if journal is not None:
        return _finish(store, target, journal, resumed=True)
    seen = preview(store, identity, bounds)
    if seen.refusals:
        raise EvidenceError(f"purge {identity}: refused, nothing was changed: {'; '.join(seen.refusals)}")
    return _finish(store, target, _begin(store, seen), resumed=False)


def _begin(store: StudyStore, seen: Preview) -> dict[str, Any]:
    detail = {
        "id": seen.target.id,
        "entries": len(seen.entries),
        "bytes": seen.size,
        "inventory": seen.inventory,
        "folder": str(len(store.ledger.rows())),
    }
    store.ledger.append("purging", seen.target.subject, None, detail)
    return detail


def _finish(store: StudyStore, target: Target, journal: dict[str, Any], *, resumed: bool) -> Purged:
    fs, subject = store.fs, target.subject
    staging = store.path / STAGE / _FOLDER / str(int(journal["folder"]))
    make_directories(fs, staging)
    for number, path in enumerate(target.paths):
        _move(store, path, staging / str(number))
    for number in range(len(target.paths)):
        _remove(store, staging / str(number))
    fs.remove_directory(staging)
    fs.sync_directory(staging.parent)
    tombstone = {
        "id": journal["id"],
        "entries": journal["entries"],
        "bytes": journal["bytes"],
        "inventory": journal["inventory"],
        "units": {
            unit.path: unit.digest
            for unit in store.history().units.values()
            if not unit.purged and (subject == "." or unit.path == subject or unit.path.startswith(f"{subject}/"))
        },
    }
    store.ledger.append("purged", subject, None, tombstone)
    return Purged(subject, int(journal["entries"]), int(journal["bytes"]), resumed)


def _move(store: StudyStore, path: str, destination: Any) -> None:
    fs, source = store.fs, store.path / path
    status = fs.status(source)
    if status is None:
        return  # moved before the cut
    if status.kind is Kind.DIRECTORY:
        fs.set_mode(source, 0o750)
    fs.move_new(source, destination)
    fs.sync_directory(destination.parent)
    fs.sync_directory(source.parent)


def _remove(store: StudyStore, path: Any) -> None:
    status = store.fs.status(path)
    if status is not None and status.kind is not Kind.DIRECTORY:
        store.fs.unlink(path)
    elif status is not None:
        remove_tree(path, store.fs)
