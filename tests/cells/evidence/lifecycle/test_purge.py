"""Purge: full id twice, archived, at rest, proved; journal first, tombstone last; nothing outside is ever touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cells.errors import EvidenceError, UsageError
from cells.evidence.design_binding import tree_digest
from cells.evidence.history import Unit
from cells.evidence.lifecycle.fork import fork
from cells.evidence.lifecycle.marks import archive, label
from cells.evidence.lifecycle.purge import purge
from cells.evidence.lifecycle.purge_target import Bounds, preview
from cells.evidence.locks import Busy
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, specimen_study, staged_attempt
from cells.evidence.study_store import StudyStore
from cells.evidence.units import begin_attempt, new_verification, publish_unit
from cells.evidence.verify import verify_path


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    store = specimen_study(tmp_path / "studies", "s", cells=2)
    archive(store)
    return store


def first(store: StudyStore) -> Unit:
    return store.history().units[sorted(store.history().units)[0]]


def gone(store: StudyStore, identity: str) -> None:
    with store.writing():
        purge(store, identity, identity)


@pytest.mark.requirement(49)
def test_a_purged_study_keeps_its_ledger_and_its_questions_and_nothing_else(store: StudyStore) -> None:
    digest, identity = first(store).digest, store.id
    gone(store, identity)
    left = {path.name for path in store.path.iterdir()}
    assert left == {"study.json", "plan.lock.json", "policy.json", "ledger.jsonl", "latest.json", "locks", ".stage"}
    assert [path for path in (store.path / ".stage").rglob("*") if path.is_file()] == []
    row = store.ledger.rows()[-1]
    assert row.kind == "purged" and digest in row.detail["units"].values()
    assert verify_path(store.path).problems == []
    assert StudyStore.open(StudiesRoot.open(store.root.path), "s", frozen=True).id == identity


@pytest.mark.requirement(49)
@pytest.mark.parametrize("name", ["cell", "bundle"])
def test_a_purged_cell_or_bundle_takes_nothing_else_along(store: StudyStore, name: str) -> None:
    unit = first(store)
    others = [one for one in store.history().units.values() if one.path != unit.path]
    before = [tree_digest(store.bundle(one)) for one in others]
    gone(store, unit.detail["cell_id"] if name == "cell" else unit.digest)
    assert not store.bundle(unit).exists()
    assert [tree_digest(store.bundle(one)) for one in others] == before
    assert verify_path(store.path).problems == []
    with store.writing():
        if name == "cell":
            with pytest.raises(EvidenceError, match="was purged"):
                begin_attempt(store, str(unit.cell), {})
        else:
            assert begin_attempt(store, str(unit.cell), {}).name == "a002"


@pytest.mark.requirement(49)
def test_the_preview_changes_nothing_and_shows_no_content(store: StudyStore) -> None:
    before = tree_digest(store.path)
    seen = preview(store, store.id)
    assert tree_digest(store.path) == before
    assert seen.refusals == ()
    assert [path for path, _, _ in seen.entries] == sorted(path for path, _, _ in seen.entries)
    assert "Make the tests pass" not in str(seen.as_json())
    assert seen.size == sum(path.stat().st_size for path in (store.path / "cells").rglob("*") if path.is_file())


@pytest.mark.parametrize("identity", ["s", ".", "baseline", "sha256:12", "a001", "sha256:" + "A" * 64, ""])
def test_labels_names_and_short_ids_are_refused(store: StudyStore, identity: str) -> None:
    label(store, ".", add=["baseline"])
    with store.writing(), pytest.raises(UsageError, match="full id"):
        purge(store, identity, identity)
    with pytest.raises(UsageError):
        preview(store, store.id[:20])


def test_the_id_is_needed_twice_and_must_exist(store: StudyStore) -> None:
    with store.writing():
        with pytest.raises(UsageError, match="twice"):
            purge(store, store.id, first(store).digest)
        with pytest.raises(UsageError, match="no study, cell or bundle"):
            purge(store, "sha256:" + "0" * 64, "sha256:" + "0" * 64)


def unarchived(store: StudyStore) -> None:
    from cells.evidence.lifecycle.marks import unarchive

    unarchive(store)


def running(store: StudyStore) -> None:
    with store.writing():
        staged_attempt(store, Specimen(task="another"))[0].release()


def changed(store: StudyStore) -> None:
    victim = store.bundle(first(store)) / "live/trace.jsonl"
    victim.chmod(0o640)
    victim.write_bytes(b"{}\n")


def linked(store: StudyStore) -> None:
    store.bundle(first(store)).chmod(0o750)
    (store.bundle(first(store)) / "outside").symlink_to("/etc")


def hard_linked(store: StudyStore) -> None:
    os.link(store.bundle(first(store)) / "start/spec.json", store.root.path / "elsewhere")


def strange(store: StudyStore) -> None:
    os.mkfifo(store.path / "cells/fifo")


REFUSED: dict[str, tuple[Callable[[StudyStore], None], str]] = {
    "unarchived": (unarchived, "not archived"),
    "running": (running, "under construction"),
    "changed": (changed, "altered"),
    "linked": (linked, "a link"),
    "hard-linked": (hard_linked, "2 links"),
    "strange": (strange, "special"),
}


@pytest.mark.requirement(49)
@pytest.mark.requirement(17)
@pytest.mark.parametrize("case", REFUSED)
def test_what_stands_against_a_purge_is_named_and_nothing_is_changed(store: StudyStore, case: str) -> None:
    make, reason = REFUSED[case]
    make(store)
    before = tree_digest(store.path / "cells")
    with store.writing(), pytest.raises(EvidenceError, match=reason):
        purge(store, store.id, store.id)
    assert tree_digest(store.path / "cells") == before
    assert [row.kind for row in store.ledger.rows()].count("purging") == 0


def test_a_locked_study_is_refused(store: StudyStore) -> None:
    other = StudyStore.open(store.root, "s")
    with store.writing(), pytest.raises(Busy):
        gone(other, other.id)


def test_bounds_hold(store: StudyStore) -> None:
    with store.writing(), pytest.raises(EvidenceError, match="allowed are 3 entries"):
        purge(store, store.id, store.id, Bounds(entries=3))
    with store.writing(), pytest.raises(EvidenceError, match="10 bytes"):
        purge(store, store.id, store.id, Bounds(size=10))


def test_a_bundle_that_others_were_made_from_is_refused_alone(store: StudyStore) -> None:
    attempt = first(store)
    with store.writing():
        stage = new_verification(store, attempt)
        stage.path.mkdir()
        (stage.path / "verify.json").write_bytes(b"{}")
        (stage.path / "source.json").write_bytes(b"{}")
        publish_unit(store, stage, "verification", {"cell": attempt.cell, "source": attempt.digest})
        with pytest.raises(EvidenceError, match="was made from it"):
            purge(store, attempt.digest, attempt.digest)
        purge(store, attempt.detail["cell_id"], attempt.detail["cell_id"])
    assert verify_path(store.path).problems == []


def test_links_of_frozen_tasks_are_removed_and_not_followed(tmp_path: Path) -> None:
    from cells.evidence.specimen import documents

    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"keep")

    def tasks(draft: Path) -> None:
        (draft / "tasks/t/repo").mkdir(parents=True)
        (draft / "tasks/t/repo/link").symlink_to(precious)

    store = StudyStore.create(StudiesRoot.ensure(tmp_path / "studies"), "s", documents("s"), populate=tasks)
    archive(store)
    gone(store, store.id)
    assert (precious / "file").read_bytes() == b"keep"
    assert not (store.path / "tasks").exists()


def test_purging_again_says_that_it_is_done(store: StudyStore) -> None:
    identity = store.id
    gone(store, identity)
    rows = len(store.ledger.rows())
    gone(store, identity)
    assert len(store.ledger.rows()) == rows
    assert preview(store, identity).refusals == (".: was purged already",)
    with store.writing(), pytest.raises(EvidenceError, match="purged"):
        add_attempt(store, Specimen(task="new"))
    with pytest.raises(EvidenceError, match="nothing to fork"):
        fork(store, "again")


@pytest.mark.requirement(49)
def test_a_stored_path_never_widens_a_purge(store: StudyStore, tmp_path: Path) -> None:
    """A ledger that somebody else wrote has a journal, or units, that name places outside the study."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim/file").write_bytes(b"keep")
    detail = {"id": store.id, "paths": ["../../victim"], "entries": 1, "bytes": 1, "inventory": "x", "folder": "7"}
    store.ledger.append("purging", ".", None, detail)
    gone(store, store.id)
    assert (tmp_path / "victim/file").read_bytes() == b"keep"


@pytest.mark.requirement(16)
def test_a_row_that_names_a_place_outside_the_study_stops_every_reader(store: StudyStore) -> None:
    store.ledger.append("published", "cells/../../../victim", "sha256:" + "1" * 64, {"kind": "note"})
    with pytest.raises(EvidenceError, match="without `..`"):
        store.accepted()
    assert not verify_path(store.path).ok


@pytest.mark.parametrize("detail", [{}, {"layout": 1}, {"layout": 1, "files": 3, "frozen": []}])
def test_a_first_row_that_binds_no_plan_is_refused_not_stumbled_over(tmp_path: Path, detail: dict[str, object]) -> None:
    store = specimen_study(tmp_path / "studies", "s", cells=1)
    for name in ("ledger.jsonl", "latest.json"):
        (store.path / name).unlink()
    StudyStore(store.root, "s").ledger.append("planned", "plan.lock.json", None, detail)
    assert not verify_path(store.path).ok
    with pytest.raises(EvidenceError):
        StudyStore.open(store.root, "s")
