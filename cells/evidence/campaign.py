"""Commands of evidence as campaigns see them: a state to start from, an act that may be cut off, and acting again.

A command's promise: cut off at any step, nothing that is not whole is believed; run again, it ends as if it had
never been cut off.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

from cells.evidence.digest import canonical_json, digest_file
from cells.evidence.fs import FileSystem
from cells.evidence.fs_real import REAL
from cells.evidence.lifecycle.export import export
from cells.evidence.lifecycle.fork import fork
from cells.evidence.lifecycle.marks import archive
from cells.evidence.lifecycle.purge import purge
from cells.evidence.lifecycle.restore import restore
from cells.evidence.quarantine import quarantine
from cells.evidence.removal import remove_tree
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, empty_study, staged_attempt
from cells.evidence.study_store import StudyStore
from cells.evidence.units import new_verification, publish_unit, reconcile, salvage, source_of, stages
from cells.evidence.verify import verify_path

STUDY = "s"
HARMLESS = frozenset({"torn_tail", "unledgered", "unfinished"})
"""What a cut-off command may leave: a row that is missing or half written, and a purge that goes on. Nothing else."""


@dataclass(frozen=True)
class Command:
    """`prepare` makes the state before, `act` is the command (run again after a cut), `done` says whether its result
    is there."""

    name: str
    prepare: Callable[[Path, str], None]
    act: Callable[[Path, FileSystem], object]
    done: Callable[[Path], bool]


def visible_damage(place: Path) -> list[str]:
    """What a reader would believe although it is not whole, after a cut: must be empty."""
    if REAL.status(place / STUDY) is None:
        return []  # not there at all: nobody believes anything
    problems = verify_path(place / STUDY).problems
    wrong = [
        f"{problem.path}: {problem.kind}: {problem.detail}" for problem in problems if problem.kind not in HARMLESS
    ]
    for problem in problems:
        if problem.kind == "unledgered":
            wrong += [
                str(inner) for inner in verify_path(place / STUDY / problem.path).problems if inner.kind != "unledgered"
            ]
    return wrong


def leftovers(place: Path) -> list[str]:
    """What a finished command may not leave: stages, drafts, temporary names."""
    stage = place / STUDY / ".stage"
    found = [path for path in stage.rglob("*") if path.is_file()] if stage.is_dir() else []
    return [str(path.relative_to(place)) for path in found] + [path.name for path in place.glob(".draft-*")]


def open_store(place: Path, fs: FileSystem = REAL) -> StudyStore:
    """The study of a campaign, opened through the file system under test."""
    return StudyStore.open(StudiesRoot.open(place), STUDY, fs=fs)


def _prepare_attempt(place: Path, salt: str) -> None:
    store = empty_study(place, STUDY)
    with store.writing():
        stage, ids = staged_attempt(store, Specimen(salt=salt))
        stage.release()
    digests = {str(path.relative_to(stage.path)): digest_file(path) for path in stage.path.rglob("*") if path.is_file()}
    (place / "asked.json").write_bytes(canonical_json({"ids": ids, "digests": digests}))


def _publish_attempt(place: Path, fs: FileSystem) -> None:
    asked = json.loads((place / "asked.json").read_bytes())
    store = open_store(place, fs)
    with store.writing():
        reconcile(store)
        if store.accepted():
            return
        (stage,) = stages(store)
        if stage.abandoned:
            stage = salvage(store, stage, asked["digests"])
        publish_unit(store, stage, "attempt", asked["ids"])


def _prepare_verification(place: Path, salt: str) -> None:
    store = empty_study(place, STUDY)
    with store.writing():
        add_attempt(store, Specimen(salt=salt))


def _publish_verification(place: Path, fs: FileSystem) -> None:
    store = open_store(place, fs)
    with store.writing():
        reconcile(store)
        for left in stages(store):
            quarantine(store, f".stage/{left.unit}{'.abandoned' if left.abandoned else ''}", "cut off; made again")
        if _has_verification(store):
            return
        (attempt,) = store.accepted().values()
        stage = new_verification(store, attempt)
        store.fs.make_directory(stage.path)
        for name, content in (("verify.json", {"v": 1, "verdict": "unresolved"}), ("source.json", source_of(attempt))):
            handle = store.fs.create(stage.path / name)
            try:
                store.fs.write(handle, canonical_json(content))
            finally:
                store.fs.close(handle)
        publish_unit(
            store, stage, "verification", {"cell": attempt.cell, "source": attempt.digest, "verdict": "unresolved"}
        )


def _has_verification(store: StudyStore) -> bool:
    return any(unit.kind == "verification" for unit in store.history().units.values())


def _quarantine(place: Path, fs: FileSystem) -> None:
    store = open_store(place, fs)
    with store.writing():
        reconcile(store)
        for unit in list(store.accepted().values()):
            quarantine(store, unit.path, "a drill")


def _append(place: Path, fs: FileSystem) -> None:
    open_store(place, fs).ledger.append_once("consumed", "cells/x", None, {"consumer": "drill"})


def _revise(place: Path, fs: FileSystem) -> None:
    store = open_store(place, fs)
    with store.writing():
        store.revise("plan.lock.r002.json", canonical_json({"v": 1, "revision": 2}), {"reason": "drill"})


def _prepare_archived(place: Path, salt: str) -> None:
    _prepare_verification(place, salt)
    archive(open_store(place))


def _export(place: Path, fs: FileSystem, *, bag: bool) -> None:
    store = open_store(place, fs)
    destination = place / ("out.bag" if bag else "out.tar.zst")
    if not _has_row("exported")(place):
        if (
            fs.status(destination) is not None
        ):  # published, its row was cut off: what it holds is older than this ledger
            remove_tree(destination) if bag else destination.unlink()
        export(store, destination, bag=bag, today=date(2026, 1, 1))


def _exported(place: Path) -> bool:
    found = [path for path in (place / "out.bag", place / "out.tar.zst") if path.exists()]
    return _has_row("exported")(place) and all(verify_path(path).ok for path in found)


def _prepare_export(place: Path, salt: str) -> None:
    _prepare_verification(place / "there", salt)
    StudiesRoot.ensure(place)
    export(open_store(place / "there"), place / "in.tar.zst", today=date(2026, 1, 1))


def _restore(place: Path, fs: FileSystem) -> None:
    if REAL.status(place / STUDY) is None:
        restore(place / "in.tar.zst", StudiesRoot.open(place), fs=fs)


def _fork(place: Path, fs: FileSystem) -> None:
    if REAL.status(place / "forked") is None:
        fork(open_store(place, fs), "forked")


def _purge(place: Path, fs: FileSystem) -> None:
    store = open_store(place, fs)
    with store.writing():
        purge(store, store.id, store.id)


def _has_row(kind: str) -> Callable[[Path], bool]:
    return lambda place: any(row.kind == kind for row in open_store(place).ledger.rows())


COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        Command("attempt", _prepare_attempt, _publish_attempt, lambda place: bool(open_store(place).accepted())),
        Command(
            "verification",
            _prepare_verification,
            _publish_verification,
            lambda place: _has_verification(open_store(place)),
        ),
        Command("quarantine", _prepare_verification, _quarantine, _has_row("quarantined")),
        Command("append", _prepare_verification, _append, _has_row("consumed")),
        Command("revise", _prepare_verification, _revise, _has_row("revised")),
        Command(
            "archive", _prepare_verification, lambda place, fs: archive(open_store(place, fs)), _has_row("archived")
        ),
        Command("export", _prepare_verification, partial(_export, bag=False), _exported),
        Command("bag", _prepare_verification, partial(_export, bag=True), _exported),
        Command("restore", _prepare_export, _restore, lambda place: bool(open_store(place).accepted())),
        Command("fork", _prepare_verification, _fork, lambda place: verify_path(place / "forked").ok),
        Command("purge", _prepare_archived, _purge, _has_row("purged")),
    )
}
