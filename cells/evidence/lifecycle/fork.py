"""Fork: the frozen design of a study becomes a new study of its own, with its lineage; nothing that was measured
comes along.

Rules (saved-files "yuj fork"; 30-evidence 21, 23):
1. The source must be what its ledger binds, before and after the copy; it is only read.
2. Files are new files, never hard links or shared ones; links of frozen tasks are copied as links.
3. The fork's first row binds its own bytes and names the source: root, study, plan and ledger head.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from cells.design.plan import parse_plan
from cells.errors import EvidenceError
from cells.evidence.design_binding import FROZEN, PLAN, POLICY, STUDY, frozen_digests, is_purged
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.fs import CHUNK, Entry, FileSystem, Kind, Tree, make_directories, read_plain, walk, write_handle
from cells.evidence.roots import StudiesRoot
from cells.evidence.study_store import StudyStore


def fork(source: StudyStore, name: str, root: StudiesRoot | None = None) -> StudyStore:
    """A new study with the newest plan of `source`. EvidenceError when the source is not what its ledger binds."""
    checked = StudyStore.open(source.root, source.name, frozen=True, fs=source.fs)
    if is_purged(checked.ledger.rows()):
        raise EvidenceError(f"{checked.path}: purged; its frozen tasks are gone, there is nothing to fork")
    plan_name, plan = checked.plan()
    before = frozen_digests(checked.path, checked.fs)
    documents = {
        STUDY: _renamed(read_plain(checked.fs, checked.path / STUDY), name),
        PLAN: _renamed_plan(plan, plan_name, name),
        POLICY: read_plain(checked.fs, checked.path / POLICY),
    }
    lineage = {
        "study": checked.name,
        "study_id": checked.id,
        "root_id": checked.root.id,
        "plan": {"name": plan_name, "digest": digest_bytes(plan)},
        "head": checked.ledger.head,
        "rows": len(checked.ledger.rows()),
    }

    def populate(draft: Path) -> None:
        for folder in FROZEN:
            if checked.fs.status(checked.path / folder) is not None:
                _copy_tree(checked.fs, checked.path / folder, draft / folder)
        if frozen_digests(draft, checked.fs) != before or frozen_digests(checked.path, checked.fs) != before:
            raise EvidenceError(f"{checked.path}: changed while it was copied; nothing was made")

    return StudyStore.create(root or source.root, name, documents, populate=populate, lineage=lineage)


def lineage_of(store: StudyStore) -> dict[str, Any] | None:
    """Where a study was forked from; None for one that was planned anew."""
    found = store.ledger.rows()[0].detail.get("lineage")
    return dict(found) if found else None


def _renamed(content: bytes, name: str) -> bytes:
    document = json.loads(content)
    if "name" in document:
        document["name"] = name
    return canonical_json(document)


def _renamed_plan(content: bytes, plan_name: str, name: str) -> bytes:
    """The plan under the fork's name, as its first revision; cells keep their identity, which holds no study's name."""
    document = json.loads(content)
    document["study"] = name
    if "revision" in document:
        document |= {"revision": 1, "previous": None}
        parse_plan(content, plan_name)
        parse_plan(canonical_json(document), PLAN)
    return canonical_json(document)


def _copy_tree(fs: FileSystem, source: Path, destination: Path) -> None:
    tree = fs.tree(source)
    try:
        make_directories(fs, destination)
        entries = list(walk(tree))
        for entry in entries:
            if entry.kind is Kind.DIRECTORY:
                make_directories(fs, destination / entry.name, _mode(entry))
            elif entry.kind is Kind.FILE:
                _copy_file(fs, tree, entry, destination / entry.name)
            elif entry.kind is not Kind.LINK:
                raise EvidenceError(f"{source / entry.name}: a {entry.kind}; it belongs to no frozen task")
        for entry in entries:
            if entry.kind is Kind.LINK:
                fs.make_link(destination / entry.name, tree.target(entry.name))
    finally:
        tree.close()


def _copy_file(fs: FileSystem, tree: Tree, entry: Entry, destination: Path) -> None:
    source = tree.open(entry.name)
    try:
        target = fs.create(destination, 0o550 if entry.mode & stat.S_IXUSR else 0o440)
        try:
            while part := fs.read(source, CHUNK):
                write_handle(fs, target, part)
            fs.fsync(target)
        finally:
            fs.close(target)
    finally:
        fs.close(source)


def _mode(entry: Entry) -> int:
    """The mode of a copied folder: as it was, but writable while it is filled (sealed/ stays closed to others)."""
    return entry.mode | 0o700
