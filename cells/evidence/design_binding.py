"""What binds a study's directory to its ledger: the first row, and every revision after it.

Rules (30-evidence 21, 24; issue "bad input"):
1. The first row is `planned`: it holds the digests of root.json, plan.lock.json, study.json and of the frozen folders.
2. A revision is a new plan.lock.rNNN.json with a `revised` row; older plans stay and stay bound.
3. A directory of another version, or whose frozen files differ from their digests, is refused by name and left as it
   is.
   policy.json is permission: it may change; the row keeps what it said when the study was planned.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cells.errors import BoundaryViolation, EvidenceError
from cells.evidence.digest import digest_bytes, digest_json
from cells.evidence.fs import FileSystem, Kind, read_plain, walk
from cells.evidence.fs_real import REAL
from cells.evidence.ledger import Row
from cells.evidence.manifest import encode_name, member_digest
from cells.evidence.problem import Problem
from cells.evidence.roots import StudiesRoot, checked_path

LAYOUT = 1
"""Version of the study directory's layout."""
STUDY, PLAN, POLICY = "study.json", "plan.lock.json", "policy.json"
TASKS = "tasks"
FROZEN = (TASKS, "scripts", "inputs")
"""Folders whose bytes belong to the frozen design."""


def planned_detail(
    root: StudiesRoot, study: Path, lineage: dict[str, Any] | None, fs: FileSystem = REAL
) -> dict[str, Any]:
    """The detail of the first row of a study whose files lie in `study`."""
    return {
        "layout": LAYOUT,
        "root": {"id": root.id, "digest": root.digest},
        "files": {name: _digest(fs, study / name) for name in (STUDY, POLICY)},
        "frozen": frozen_digests(study, fs),
        "lineage": lineage,
    }


def frozen_digests(study: Path, fs: FileSystem = REAL) -> dict[str, dict[str, str]]:
    """Folder -> name -> digest. A task is one name (every file's digest and execute bit, every link's target), since
    it is
    frozen by one rename; of other folders every file is one."""
    found: dict[str, dict[str, str]] = {}
    for folder in FROZEN:
        if fs.status(study / folder) is None:
            continue
        tree = fs.tree(study / folder)
        try:
            entries = tree.entries() if folder == TASKS else walk(tree)
            names = [entry for entry in list(entries) if folder == TASKS or entry.kind is not Kind.DIRECTORY]
        finally:
            tree.close()
        found[folder] = {
            encode_name(entry.name): _entry_digest(study / folder / entry.name, entry.kind, fs)
            for entry in names
            if not entry.name.rpartition("/")[2].startswith(".")
        }
    return found


def unbound(study: Path, rows: Iterable[Row], fs: FileSystem = REAL) -> list[Problem]:
    """Entries of frozen folders that no plan binds: a revision that was cut off before its row, or something
    planted."""
    bound = current_plan(rows).detail["frozen"]
    return [
        Problem(
            f"{folder}/{name}", "unfinished", "no plan binds it: `assay plan --accept` was cut off, or it was planted"
        )
        for folder, entries in frozen_digests(study, fs).items()
        for name in entries.keys() - bound.get(folder, {}).keys()
    ]


def tree_digest(root: Path, fs: FileSystem = REAL) -> str:
    """Digest over every entry of a tree of ours: name, kind, content and the owner's execute bit."""
    entries: dict[str, Any] = {}
    tree = fs.tree(root)
    try:
        for entry in walk(tree):
            name = encode_name(entry.name)
            if entry.kind is Kind.FILE:
                entries[name] = [member_digest(fs, tree, entry.name)[0], bool(entry.mode & stat.S_IXUSR)]
            elif entry.kind is Kind.LINK:
                entries[name] = ["link", encode_name(tree.target(entry.name))]
            else:
                entries[name] = [str(entry.kind)]
    finally:
        tree.close()
    return digest_json(entries)


def design_problems(study: Path, rows: Sequence[Row], *, frozen: bool, fs: FileSystem = REAL) -> list[Problem]:
    """How a study's frozen files differ from what its ledger binds. `frozen` also digests the folders (seconds for
    large sets)."""
    try:
        return _design_problems(study, rows, frozen, fs)
    except (KeyError, TypeError, AttributeError, BoundaryViolation) as error:
        return [
            Problem("ledger.jsonl", "study", f"a planned or revised row binds something else than a plan ({error})")
        ]


def _design_problems(study: Path, rows: Sequence[Row], frozen: bool, fs: FileSystem) -> list[Problem]:
    plans = [row for row in rows if row.kind in ("planned", "revised")]
    if not plans or plans[0].kind != "planned" or plans[0].seq != 0:
        return [Problem("ledger.jsonl", "study", "its first row does not bind a plan")]
    layout = plans[0].detail.get("layout")
    if layout != LAYOUT:
        return [Problem("", "version", f"layout version {layout!r}; this version of Assay reads {LAYOUT}")]
    problems = [*_file_problems(study, STUDY, plans[0].detail["files"][STUDY], fs)]
    for row in plans:
        problems += _file_problems(study, checked_path(row.subject), row.digest, fs)
    if frozen and not is_purged(rows):
        problems += _frozen_problems(plans[-1].detail["frozen"], frozen_digests(study, fs))
    return problems


def is_purged(rows: Iterable[Row]) -> bool:
    """Whether the study as a whole was purged: its frozen folders are gone, its documents and its ledger stay."""
    return any(row.kind in ("purging", "purged") and row.subject == "." for row in rows)


def root_of(rows: Iterable[Row]) -> dict[str, Any] | None:
    """{"id", "digest"} of the studies root that the study belongs to: where it was planned, or last restored."""
    bound = None
    for row in rows:
        if row.kind in ("planned", "restored") and "root" in row.detail:
            bound = row.detail["root"]
    return bound


def current_plan(rows: Iterable[Row]) -> Row:
    """The row of the newest plan. EvidenceError when there is none."""
    plans = [row for row in rows if row.kind in ("planned", "revised")]
    if not plans:
        raise EvidenceError("ledger.jsonl: no planned row; not a study of Assay")
    return plans[-1]


def _frozen_problems(bound: dict[str, dict[str, str]], found: dict[str, dict[str, str]]) -> list[Problem]:
    return [
        Problem(
            f"{folder}/{name}",
            "plan",
            f"expected {digest}, found {found.get(folder, {}).get(name)}: changed since the plan",
        )
        for folder, entries in bound.items()
        for name, digest in entries.items()
        if found.get(folder, {}).get(name) != digest
    ]


def _entry_digest(path: Path, kind: Kind, fs: FileSystem) -> str:
    if kind is Kind.DIRECTORY:
        return tree_digest(path, fs)
    return digest_bytes(read_plain(fs, path))


def _file_problems(study: Path, name: str, expected: str | None, fs: FileSystem) -> list[Problem]:
    found = _digest(fs, study / name)
    if found is None:
        return [Problem(name, "plan", "missing; the ledger binds it")]
    if found != expected:
        return [Problem(name, "plan", f"changed by hand: expected {expected}, found {found}")]
    try:
        version = json.loads(read_plain(fs, study / name))["v"]
    except (ValueError, KeyError, TypeError):
        return [Problem(name, "version", "has no schema version `v`")]
    if version != LAYOUT:
        return [Problem(name, "version", f"schema version {version!r}; this version of Assay reads {LAYOUT}")]
    return []


def _digest(fs: FileSystem, path: Path) -> str | None:
    return None if fs.status(path) is None else digest_bytes(read_plain(fs, path))
