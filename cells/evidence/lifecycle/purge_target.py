"""What a purge would remove, found and proved before anything is touched; reading only.

Rules (30-evidence 49; saved-files "yuj purge"):
1. The target is named by its full id, twice: a study's id, a cell's cell_id, a bundle's digest. Labels, names and
   short ids are refused.
2. It must be archived, at rest, whole (it verifies), derived into nothing that stays, and within bounds of entries
   and bytes.
3. The walk follows no link and crosses no mount; links exist in frozen tasks and in quarantine only. Stored paths
   expand nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cells.errors import EvidenceError, UsageError
from cells.evidence.digest import digest_json
from cells.evidence.fs import Kind, walk
from cells.evidence.history import Unit
from cells.evidence.lifecycle.marks import STUDY
from cells.evidence.manifest import encode_name
from cells.evidence.roots import checked_path
from cells.evidence.study_store import STAGE, StudyStore
from cells.evidence.verify_study import study_problems, unit_problems

CONTENT = ("cells", "branches", "replays", "quarantine", "tasks", "scripts", "inputs", "tables")
DERIVED = ("report.html", "catalog.json", "run.log", "study.toml")
_FULL_ID = re.compile(r"sha256:[0-9a-f]{64}")
_LINKS_BELOW = ("tasks/", "scripts/", "inputs/", "quarantine/")


@dataclass(frozen=True)
class Bounds:
    """How much one purge may remove."""

    entries: int = 500_000
    size: int = 256 << 30


@dataclass(frozen=True)
class Target:
    """What an id names. `paths` are relative to the study and disjoint; those that do not exist are passed over. They
    follow from the id and the layout alone, never from a stored path."""

    id: str
    subject: str
    paths: tuple[str, ...]
    units: tuple[Unit, ...]


@dataclass(frozen=True)
class Preview:
    """What would go: entries as (path, kind, bytes), sorted; and every reason against it."""

    target: Target
    entries: tuple[tuple[str, str, int], ...]
    refusals: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(size for _, _, size in self.entries)

    @property
    def inventory(self) -> str:
        """Digest of the list: what is confirmed is what was seen."""
        return digest_json([list(entry) for entry in self.entries])

    def as_json(self) -> dict[str, Any]:
        """The document of `assay purge --preview --json`. Names, kinds and sizes; no content."""
        return {
            "id": self.target.id,
            "subject": self.target.subject,
            "entries": [{"path": path, "kind": kind, "bytes": size} for path, kind, size in self.entries],
            "bytes": self.size,
            "refusals": list(self.refusals),
        }


def find_target(store: StudyStore, identity: str) -> Target:
    """The target of a full id. UsageError for anything shorter, a label or a name, and for an id that is not there."""
    if not _FULL_ID.fullmatch(identity):
        raise UsageError(
            f"purge {identity!r}: expected a full id (sha256: and 64 hex digits), never a label, a name or a short id"
        )
    history = store.history()
    if identity == store.id:
        standing = tuple(unit for unit in history.units.values() if not unit.purged)
        return Target(identity, STUDY, (*CONTENT, *DERIVED), standing)
    cells = {unit.cell: unit for unit in history.units.values() if unit.detail.get("cell_id") == identity}
    if cells:
        (cell,) = cells
        subject = checked_path(f"cells/{cell}")
        return Target(
            identity, subject, (subject,), tuple(unit for unit in history.units.values() if unit.cell == cell)
        )
    path = history.by_digest.get(identity)
    if path is None:
        raise UsageError(
            f"purge {identity}: no study, cell or bundle of {store.name} has this id; `assay show` prints full ids"
        )
    return Target(identity, path, (path,), (history.unit(path),))


def preview(store: StudyStore, identity: str, bounds: Bounds | None = None) -> Preview:
    """List what a purge would remove and why it would be refused. Changes nothing, journals nothing."""
    target, limits = find_target(store, identity), bounds or Bounds()
    entries: list[tuple[str, str, int]] = []
    refusals: list[str] = []
    for path in target.paths:
        _list(store, path, entries, refusals)
    entries.sort()
    refusals += _state_refusals(store, target)
    if not refusals:
        refusals += _proof_refusals(store, target)
    if len(entries) > limits.entries or sum(entry[2] for entry in entries) > limits.size:
        total = sum(entry[2] for entry in entries)
        refusals.append(
            f"{len(entries)} entries, {total} bytes; allowed are {limits.entries} entries, {limits.size} bytes"
        )
    return Preview(target, tuple(entries), tuple(refusals))


def _state_refusals(store: StudyStore, target: Target) -> list[str]:
    history, refusals = store.history(), []
    if history.purged(target.subject):
        return [f"{target.subject}: was purged already"]
    if not history.archived & {target.subject, STUDY}:
        refusals.append(f"{target.subject}: is not archived; `assay archive` it first")
    running = store.stage_path("" if target.subject == STUDY else target.subject)
    if store.fs.status(running) is not None and _has_files(store, running):
        refusals.append(f"{STAGE}/: something of it is under construction or was cut off; `assay run` settles it")
    others = {unit.path for unit in history.units.values() if unit.stands} - {unit.path for unit in target.units}
    for unit in target.units:
        children = [child.path for child in history.derived_from(unit.path) if child.path in others]
        if children:
            refusals.append(f"{unit.path}: {', '.join(children[:3])} was made from it and would stay")
    return refusals


def _proof_refusals(store: StudyStore, target: Target) -> list[str]:
    """What does not verify is not purged: move it to quarantine first, or find out what happened to it."""
    if target.subject == STUDY:
        problems = [problem for problem in study_problems(store.path, store.fs)[0] if problem.kind != "unfinished"]
    else:
        problems = [
            problem for unit in target.units if unit.stands for problem in unit_problems(store.path, unit, store.fs)
        ]
    return [f"{problem.path}: {problem.kind}: {problem.detail}" for problem in problems[:5]]


def _list(store: StudyStore, path: str, entries: list[tuple[str, str, int]], refusals: list[str]) -> None:
    status = store.fs.status(store.path / path)
    if status is None:
        return
    entries.append((path, str(status.kind), status.size if status.kind is Kind.FILE else 0))
    if status.kind is not Kind.DIRECTORY:
        if status.kind is not Kind.FILE or status.links != 1:
            refusals.append(f"{path}: a {status.kind} with {status.links} links")
        return
    device = store.fs.status(store.path)
    tree = store.fs.tree(store.path / path)
    try:
        for entry in walk(tree):
            name = f"{path}/{encode_name(entry.name)}"
            entries.append((name, str(entry.kind), entry.size if entry.kind is Kind.FILE else 0))
            if device is None or entry.device != device.device:
                refusals.append(f"{name}: on another device; no mount is crossed")
            elif entry.kind is Kind.SPECIAL or (entry.kind is Kind.LINK and not name.startswith(_LINKS_BELOW)):
                refusals.append(f"{name}: a {entry.kind}; only plain files and directories are purged")
            elif entry.kind is Kind.FILE and entry.links != 1:
                refusals.append(f"{name}: {entry.links} links; its bytes belong to somebody else too")
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be listed ({error}); nothing was changed") from error
    finally:
        tree.close()


def _has_files(store: StudyStore, path: Any) -> bool:
    tree = store.fs.tree(path)
    try:
        return any(entry.kind is not Kind.DIRECTORY for entry in walk(tree))
    finally:
        tree.close()
