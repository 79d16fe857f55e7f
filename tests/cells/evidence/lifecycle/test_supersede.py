"""A correction is a new bundle linked to the old one; readers get the newest, both are kept, two successors
conflict."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells.errors import ConflictError, UsageError
from cells.evidence.design_binding import tree_digest
from cells.evidence.digest import canonical_json
from cells.evidence.history import History, Unit
from cells.evidence.lifecycle.marks import withdraw
from cells.evidence.lifecycle.supersede import correct, newest_observation, supersede
from cells.evidence.specimen import Specimen, add_attempt, specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.units import new_verification, publish_unit, source_of
from cells.evidence.verify import verify_path


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return specimen_study(tmp_path / "studies", "s", cells=1)


def verification(store: StudyStore, attempt: Unit, source: str | None = None) -> Unit:
    with store.writing():
        stage = new_verification(store, attempt)
        stage.path.mkdir()
        (stage.path / "verify.json").write_bytes(canonical_json({"v": 1, "n": stage.name}))
        (stage.path / "source.json").write_bytes(canonical_json(source_of(attempt)))
        ids = {"cell": attempt.cell, "source": source or attempt.digest}
        return publish_unit(store, stage, "verification", ids)


def attempt_of(store: StudyStore) -> Unit:
    (unit,) = store.accepted().values()
    return unit


@pytest.mark.requirement(43)
def test_a_chain_of_three_gives_the_last_and_keeps_all(store: StudyStore) -> None:
    one, two, three = (verification(store, attempt_of(store)) for _ in range(3))
    before = tree_digest(store.path / "cells")
    assert supersede(store, one.path, two.path, "wrong image") == store.history().unit(two.path)
    assert supersede(store, two.path, three.path, "wrong again").path == three.path
    assert store.history().newest(one.path).path == three.path
    assert tree_digest(store.path / "cells") == before
    assert verify_path(store.path).ok


@pytest.mark.requirement(43)
def test_two_successors_rings_and_foreign_kinds_are_refused(store: StudyStore) -> None:
    one, two, three = (verification(store, attempt_of(store)) for _ in range(3))
    supersede(store, one.path, two.path, "x")
    rows = len(store.ledger.rows())
    assert supersede(store, one.path, two.path, "x").path == two.path
    for old, new, error in (
        (one.path, three.path, ConflictError),
        (two.path, one.path, ConflictError),
        (three.path, two.path, ConflictError),
        (three.path, three.path, ConflictError),
        (three.path, attempt_of(store).path, UsageError),
        ("cells/none/verifications/v009", three.path, ConflictError),
    ):
        with pytest.raises(error):
            supersede(store, old, new, "x")
    with pytest.raises(UsageError, match="reason"):
        supersede(store, two.path, three.path, "")
    assert len(store.ledger.rows()) == rows


@pytest.mark.requirement(43)
def test_a_correction_is_published_beside_what_it_corrects(store: StudyStore, tmp_path: Path) -> None:
    old = verification(store, attempt_of(store))
    (tmp_path / "fixed").mkdir()
    (tmp_path / "fixed/verify.json").write_bytes(canonical_json({"v": 1, "verdict": "resolved"}))
    (tmp_path / "fixed/source.json").write_bytes(canonical_json(source_of(attempt_of(store))))
    with store.writing():
        new = correct(store, old.path, tmp_path / "fixed", "the log was misread")
        with pytest.raises(ConflictError, match="correct that one"):
            correct(store, old.path, tmp_path / "fixed", "again")
        with pytest.raises(UsageError, match="run again"):
            correct(store, attempt_of(store).path, tmp_path / "fixed", "no")
    assert new.detail["supersedes"] == old.digest
    assert store.history().newest(old.path).path == new.path
    assert verify_path(store.path).ok


@pytest.mark.requirement(31)
def test_the_newest_observation_of_this_very_bundle_counts_and_others_are_named(store: StudyStore) -> None:
    attempt = attempt_of(store)
    assert newest_observation(store.history(), attempt).unit is None
    first = verification(store, attempt)
    second = verification(store, attempt)
    stale = verification(store, attempt, source="sha256:" + "0" * 64)
    found = newest_observation(store.history(), attempt)
    assert found.unit == store.history().unit(second.path)
    assert found.warnings == (
        f"{stale.path}: made from another bundle than {attempt.path}; it counts for nothing here",
    )
    withdraw(store, second.path, "x")
    assert newest_observation(store.history(), attempt).unit == store.history().unit(first.path)


@pytest.mark.requirement(31)
def test_two_observations_of_one_number_have_no_authority(store: StudyStore) -> None:
    attempt = attempt_of(store)
    first, second = verification(store, attempt), verification(store, attempt)
    history = History.of(store.ledger.rows())
    twin = history.units.pop(second.path)
    twin.path = first.path.replace("v002", "other/v002")
    history.units[twin.path] = twin
    found = newest_observation(history, attempt)
    assert found.unit is None
    assert "number 2: none of them counts" in found.warnings[0]


def test_a_superseding_attempt_is_the_one_that_tables_are_given(store: StudyStore) -> None:
    with store.writing():
        corrected = add_attempt(store, Specimen(task="task-00000", verdict="not_run"))
    attempt = attempt_of(store)
    supersede(store, attempt.path, corrected.path, "an infrastructure loss after all")
    assert attempt_of(store).path == corrected.path
