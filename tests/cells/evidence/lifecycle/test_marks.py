"""Marks touch the ledger only: archived, labelled, withdrawn, consumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells.errors import ConflictError, UsageError
from cells.evidence.design_binding import tree_digest
from cells.evidence.lifecycle.marks import archive, consume, label, subject_of, unarchive, withdraw
from cells.evidence.specimen import Specimen, add_attempt, specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.units import new_verification, publish_unit, source_of
from cells.evidence.verify import verify_path


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return specimen_study(tmp_path / "studies", "s", cells=2)


def evidence_of(store: StudyStore) -> str:
    return tree_digest(store.path / "cells")


@pytest.mark.requirement(60)
def test_archiving_is_a_row_and_touches_no_evidence(store: StudyStore) -> None:
    before = evidence_of(store)
    assert archive(store) is not None
    assert archive(store) is None
    assert store.history().archived == {"."}
    assert unarchive(store) is not None
    assert unarchive(store) is None
    assert store.history().archived == set()
    assert evidence_of(store) == before
    assert verify_path(store.path).ok


def test_labels_come_and_go(store: StudyStore) -> None:
    assert label(store, ".", add=["baseline", "spring 2026"]) == {"baseline", "spring 2026"}
    rows = len(store.ledger.rows())
    assert label(store, ".", add=["baseline"]) == {"baseline", "spring 2026"}
    assert len(store.ledger.rows()) == rows
    assert label(store, ".", remove=["spring 2026"]) == {"baseline"}
    for text in ("", "\n", "x" * 65, "../up\0"):
        with pytest.raises(UsageError):
            label(store, ".", add=[text])


def test_a_subject_is_the_study_a_cell_or_a_unit(store: StudyStore) -> None:
    unit = next(iter(store.accepted().values()))
    assert subject_of(store, "s") == subject_of(store, ".") == "."
    assert subject_of(store, str(unit.cell)) == f"cells/{unit.cell}"
    assert subject_of(store, unit.path) == unit.path
    for reference in ("nothing", "cells/nothing", "../s"):
        with pytest.raises(UsageError):
            subject_of(store, reference)
        with pytest.raises(UsageError):
            archive(store, reference)


@pytest.mark.requirement(46)
def test_a_withdrawn_unit_takes_what_was_made_from_it_along(store: StudyStore) -> None:
    attempt = next(iter(store.accepted().values()))
    with store.writing():
        stage = new_verification(store, attempt)
        stage.path.mkdir()
        (stage.path / "verify.json").write_bytes(b"{}")
        (stage.path / "source.json").write_bytes(b"{}")
        later = publish_unit(store, stage, "verification", {"cell": attempt.cell, "source": attempt.digest})
    gone = withdraw(store, attempt.path, "the licence ended")
    assert [unit.path for unit in gone] == [attempt.path, later.path]
    lost = store.history().lost_claims()
    assert lost[attempt.path] == "withdrawn: the licence ended"
    assert "the licence ended" in lost[later.path]
    assert attempt.cell in store.accepted(), "a withdrawn cell is not run again by itself"
    assert verify_path(store.path).ok


def test_withdrawing_needs_a_reason_and_a_known_unit(store: StudyStore) -> None:
    with pytest.raises(UsageError, match="without a reason"):
        withdraw(store, next(iter(store.accepted().values())).path, " ")
    with pytest.raises(ConflictError):
        withdraw(store, "cells/none/attempts/a001", "x")


@pytest.mark.requirement(28)
def test_consumption_is_appended_once_for_each_reader(store: StudyStore) -> None:
    unit = next(iter(store.accepted().values()))
    first = consume(store, unit.path, "report r1")
    assert consume(store, unit.path, "report r1") == first
    assert consume(store, unit.path, "report r2") != first
    assert first.digest == unit.digest


def test_evidence_that_is_derived_from_nothing_known_stays(store: StudyStore) -> None:
    with store.writing():
        other = add_attempt(store, Specimen(task="other"))
    withdraw(store, other.path, "x")
    assert set(store.history().lost_claims()) == {other.path}


def test_source_names_the_attempt(store: StudyStore) -> None:
    unit = next(iter(store.accepted().values()))
    assert source_of(unit)["cell_id"] == unit.detail["cell_id"]
