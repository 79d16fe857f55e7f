"""Fork: the same frozen design, new files, its own ledger, its lineage; the source is only read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cells.errors import ConflictError, EvidenceError
from cells.evidence.design_binding import tree_digest
from cells.evidence.lifecycle.fork import fork, lineage_of
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, documents
from cells.evidence.study_store import StudyStore
from cells.evidence.verify import verify_path


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    def tasks(draft: Path) -> None:
        (draft / "tasks/t/sealed").mkdir(parents=True, mode=0o700)
        (draft / "tasks/t/sealed/test_x.py").write_bytes(b"assert True\n")
        (draft / "tasks/t/run.sh").write_bytes(b"#!/bin/sh\n")
        (draft / "tasks/t/run.sh").chmod(0o755)
        (draft / "tasks/t/link").symlink_to("run.sh")

    store = StudyStore.create(StudiesRoot.ensure(tmp_path / "studies"), "s", documents("s"), populate=tasks)
    with store.writing():
        add_attempt(store, Specimen())
    return store


def test_a_fork_has_the_design_and_the_lineage_and_no_results(store: StudyStore) -> None:
    before = tree_digest(store.path)
    made = fork(store, "again")
    assert tree_digest(store.path) == before
    assert tree_digest(made.path / "tasks") == tree_digest(store.path / "tasks")
    assert made.accepted() == {} and made.id != store.id
    lineage = lineage_of(made)
    assert lineage is not None
    assert (lineage["study_id"], lineage["head"], lineage["root_id"]) == (store.id, store.ledger.head, store.root.id)
    assert lineage_of(store) is None
    assert json.loads((made.path / "plan.lock.json").read_bytes())["study"] == "again"
    assert verify_path(store.root.path).problems == []


def test_a_fork_shares_no_file_with_its_source(store: StudyStore) -> None:
    made = fork(store, "again")
    inodes = {path.lstat().st_ino for path in store.path.rglob("*")}
    assert not inodes & {path.lstat().st_ino for path in made.path.rglob("*")}
    assert os.readlink(made.path / "tasks/t/link") == "run.sh"


def test_a_source_that_was_changed_is_not_forked(store: StudyStore) -> None:
    (store.path / "tasks/t/run.sh").write_bytes(b"#!/bin/false\n")
    with pytest.raises(EvidenceError, match="changed since the plan"):
        fork(store, "again")
    assert not (store.root.path / "again").exists()


def test_a_name_that_is_taken_is_a_conflict(store: StudyStore) -> None:
    with pytest.raises(ConflictError):
        fork(store, "s")
