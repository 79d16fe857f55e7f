"""Superseding: a correction is a new bundle that names the old one; both stay, readers are given the newest.

Rules (30-evidence 43, 31):
1. A unit has one successor and is the successor of at most one; a second successor is a conflict, so is a ring.
2. Unit and successor are of one kind and, where they belong to a cell, of one cell.
3. Of several later observations of one attempt the newest with the attempt's own digest counts; others are named in
   a warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cells.errors import ConflictError, EvidenceError, UsageError
from cells.evidence.fs import Kind, create_durable, make_directories, read_plain, walk
from cells.evidence.history import History, Unit
from cells.evidence.sequences import SCORE, VERIFICATION, numbers
from cells.evidence.study_store import StudyStore
from cells.evidence.units import begin_later, publish_unit

_CORRECTABLE = {"verification": VERIFICATION, "score": SCORE}


def supersede(store: StudyStore, old: str, new: str, reason: str) -> Unit:
    """Record that `new` takes the place of `old`; the unit that readers are given now. Run again, it says the same."""
    history = store.history()
    before, after = history.unit(old), history.unit(new)
    if not reason.strip():
        raise UsageError(f"supersede {old}: asked without a reason")
    if before.superseded_by == new:
        return history.newest(old)
    _check(history, before, after)
    store.ledger.append("superseded", old, before.digest, {"by": new, "by_digest": after.digest, "reason": reason})
    return store.history().newest(old)


def correct(store: StudyStore, old: str, directory: Path, reason: str) -> Unit:
    """Publish a corrected verification or score from a directory of its files, linked to the one it corrects."""
    store.require_writing()
    unit = store.history().unit(old)
    if unit.kind not in _CORRECTABLE or unit.cell is None:
        raise UsageError(
            f"{old}: a {unit.kind}; corrections by hand are for {', '.join(_CORRECTABLE)}, others are run again"
        )
    if unit.superseded_by is not None:
        raise ConflictError(f"{old}: superseded by {unit.superseded_by} already; correct that one")
    stage = begin_later(store, _CORRECTABLE[unit.kind], unit.cell)
    _copy(store, directory, stage.path)
    ids = {key: value for key, value in unit.detail.items() if key not in ("kind", "bytes")}
    new = publish_unit(store, stage, unit.kind, {**ids, "supersedes": unit.digest, "reason": reason})
    supersede(store, old, new.path, reason)
    return new


@dataclass(frozen=True)
class Resolved:
    """The observation that counts for an attempt, and what was passed over and why."""

    unit: Unit | None
    warnings: tuple[str, ...]


def newest_observation(history: History, attempt: Unit, kind: str = "verification") -> Resolved:
    """The later verification or score that counts for an attempt; None when there is none and its own counts.

    It is the highest number whose source is this very attempt (its digest), that stands and was neither withdrawn
    nor superseded.
    Units that claim another source are stale, two of one number are both without authority; each is a warning.
    """
    category = _CORRECTABLE[kind]
    found: dict[int, list[Unit]] = {}
    warnings: list[str] = []
    for unit in history.units.values():
        if unit.kind != kind or unit.cell != attempt.cell or not unit.stands:
            continue
        if unit.detail.get("source") != attempt.digest:
            warnings.append(f"{unit.path}: made from another bundle than {attempt.path}; it counts for nothing here")
        elif unit.withdrawn is None and unit.superseded_by is None:
            found.setdefault(numbers(category, [unit.path])[0], []).append(unit)
    for number in sorted(found, reverse=True):
        if len(found[number]) == 1:
            return Resolved(found[number][0], tuple(warnings))
        warnings.append(f"{len(found[number])} {kind}s with the number {number}: none of them counts")
    return Resolved(None, tuple(warnings))


def _check(history: History, before: Unit, after: Unit) -> None:
    if before.superseded_by is not None:
        raise ConflictError(
            f"{before.path}: superseded by {before.superseded_by} already; two successors are a conflict"
        )
    if before.kind != after.kind or before.cell != after.cell:
        raise UsageError(
            f"{after.path} ({after.kind}, cell {after.cell}) cannot take the place of {before.path} "
            f"({before.kind}, cell {before.cell})"
        )
    if any(unit.superseded_by == after.path for unit in history.units.values()):
        raise ConflictError(f"{after.path}: it is the successor of another unit already")
    if history.newest(after.path).path == before.path or before.path == after.path:
        raise ConflictError(f"{after.path}: it was superseded by {before.path}; a ring of successors has no newest")
    if not after.stands:
        raise EvidenceError(f"{after.path}: purged or in quarantine; it cannot take anybody's place")


def _copy(store: StudyStore, directory: Path, stage: Path) -> None:
    fs = store.fs
    make_directories(fs, stage)
    tree = fs.tree(directory)
    try:
        entries = list(walk(tree))
    finally:
        tree.close()
    for entry in entries:
        if entry.kind is Kind.DIRECTORY:
            make_directories(fs, stage / entry.name)
        else:
            make_directories(fs, (stage / entry.name).parent)
            create_durable(fs, stage / entry.name, read_plain(fs, directory / entry.name))
