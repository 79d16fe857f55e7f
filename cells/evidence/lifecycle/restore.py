"""Restore: an export becomes a study again, under another root if need be: unpacked to a stage, verified, published
by one rename.

Rules (30-evidence 44, 45; evidence bundle "Archive And Restore"):
1. Nothing is believed before it is whole: carrier, index, manifest, then the study itself (ledger, design, bundles).
2. What the index did not announce is not written; files are created below the stage only, never through a link.
3. A `restored` row binds the new root; one rename makes the study appear. A killed restore leaves a stage that the
   next one removes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cells.errors import ConflictError, EvidenceError
from cells.evidence.design_binding import PLAN
from cells.evidence.fs import FileSystem, make_directories, write_handle
from cells.evidence.fs_real import REAL
from cells.evidence.ledger import LEDGER, Ledger
from cells.evidence.lifecycle.archive_file import archive_members
from cells.evidence.lifecycle.bag import bag_members
from cells.evidence.lifecycle.export_index import Index, Item
from cells.evidence.lifecycle.proof import Members, read_export
from cells.evidence.locks import refuse_network
from cells.evidence.manifest import decode_name, decode_text
from cells.evidence.problem import Problem
from cells.evidence.removal import remove_tree
from cells.evidence.roots import StudiesRoot
from cells.evidence.study_store import StudyStore
from cells.evidence.verify_study import bundle_problems, study_problems


def restore(source: Path, root: StudiesRoot, name: str | None = None, fs: FileSystem = REAL) -> StudyStore:
    """The study of an export (.tar.zst file or bag directory) as a study of this root. EvidenceError says why it is
    refused."""
    members = bag_members(source) if source.is_dir() else archive_members(source)
    refuse_network(root.path)
    stage = root.path / ".restore"
    with root.lock("restore").held():
        if fs.status(stage) is not None:
            remove_tree(stage, fs)
        try:
            index = unpack(members, stage, fs)
            if index.kind != "study":
                raise EvidenceError(
                    f"{source}: holds a {index.kind}, not a study; `assay restore --out DIR` unpacks it"
                )
            return _publish(stage, source, root, name or str(index.facts["name"]), fs)
        finally:
            if fs.status(stage) is not None:
                remove_tree(stage, fs)


def restore_bundle(source: Path, destination: Path, fs: FileSystem = REAL) -> Path:
    """The bundle of an export as a directory of its own, verified, published by one rename."""
    stage = destination.with_name(f".restore-{destination.name}")
    if fs.status(stage) is not None:
        remove_tree(stage, fs)
    try:
        index = unpack(bag_members(source) if source.is_dir() else archive_members(source), stage, fs)
        problems, _ = check_unpacked(stage, index)
        _refuse(source, problems)
        try:
            fs.move_new(stage, destination)
        except FileExistsError as error:
            raise ConflictError(f"{destination}: something is there; nothing was replaced") from error
        fs.sync_directory(destination.parent)
        return destination
    finally:
        if fs.status(stage) is not None:
            remove_tree(stage, fs)


def unpack(members: Members, place: Path, fs: FileSystem = REAL) -> Index:
    """Write the content of an export below a new directory, every byte proved against index and manifest; the index."""
    make_directories(fs, place)
    index = read_export(members, lambda item, chunks: _write(fs, place / decode_name(item.path), item, chunks))
    for item in index.items:
        if item.kind == "directory":
            make_directories(fs, place / decode_name(item.path))
    _make_links(fs, place, index)
    return index


def check_unpacked(place: Path, index: Index) -> tuple[list[Problem], int]:
    """What is wrong with the study or bundle that was unpacked, and how many bundles were checked."""
    if index.kind == "bundle":
        return bundle_problems(place), 1
    problems, checked = study_problems(place)
    return problems, checked


def _publish(stage: Path, source: Path, root: StudiesRoot, name: str, fs: FileSystem) -> StudyStore:
    problems, _ = study_problems(stage, fs)
    _refuse(source, problems)
    destination = root.study_path(name)
    make_directories(fs, stage / "locks")
    ledger = Ledger.open(stage, fs=fs)
    before: dict[str, Any] = {"head": ledger.head, "rows": len(ledger.rows())}
    ledger.append(
        "restored", PLAN, None, {"root": {"id": root.id, "digest": root.digest}, "from": before, "name": name}
    )
    try:
        fs.move_new(stage, destination)
    except FileExistsError as error:
        raise ConflictError(f"{destination}: a study is there; restore it under another name with --name") from error
    fs.sync_directory(root.path)
    return StudyStore.open(root, name, fs=fs)


def _refuse(source: Path, problems: list[Problem]) -> None:
    if problems:
        first = problems[0]
        raise EvidenceError(
            f"{source}: not restored: {len(problems)} problems in what it holds "
            f"({first.path}: {first.kind}: {first.detail})"
        )


def _write(fs: FileSystem, path: Path, item: Item, chunks: Iterator[bytes]) -> None:
    make_directories(fs, path.parent)
    handle = fs.create(path, _mode(item))
    try:
        for part in chunks:
            write_handle(fs, handle, part)
        fs.fsync(handle)
    finally:
        fs.close(handle)


def _mode(item: Item) -> int:
    """Evidence is read-only; the ledger goes on."""
    if item.path == LEDGER:
        return 0o640
    return 0o550 if item.executable else 0o440


def _make_links(fs: FileSystem, place: Path, index: Index) -> None:
    """Links last, so that nothing was written through one; they are data of frozen tasks and never followed here."""
    for item in index.items:
        if item.kind == "link" and item.target is not None:
            path = place / decode_name(item.path)
            make_directories(fs, path.parent)
            fs.make_link(path, decode_text(item.target))
