"""Units: numbers that are never reused, acceptance of exactly one attempt a cell, leftovers settled."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells.errors import ConflictError, EvidenceError
from cells.evidence.design_binding import tree_digest
from cells.evidence.digest import canonical_json, digest_file
from cells.evidence.history import History
from cells.evidence.locks import Busy
from cells.evidence.roots import StudiesRoot
from cells.evidence.sequences import ATTEMPT, REPLAY, SCORE, VERIFICATION, Category, allocate, numbers
from cells.evidence.specimen import Specimen, add_attempt, empty_study, specimen_study, staged_attempt
from cells.evidence.study_store import StudyStore
from cells.evidence.units import (
    Stage,
    begin_attempt,
    begin_later,
    discard,
    new_verification,
    publish_unit,
    reconcile,
    salvage,
    source_of,
    stages,
)


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return empty_study(tmp_path / "studies", "s")


def later_verification(store: StudyStore, attempt: str, verdict: str = "unresolved") -> str:
    unit = store.history().unit(attempt)
    stage = new_verification(store, unit)
    stage.path.mkdir()
    (stage.path / "verify.json").write_bytes(canonical_json({"v": 1, "verdict": verdict}))
    (stage.path / "source.json").write_bytes(canonical_json(source_of(unit)))
    ids = {"cell": unit.cell, "cell_id": unit.detail["cell_id"], "source": unit.digest, "verdict": verdict}
    return publish_unit(store, stage, "verification", ids).path


@pytest.mark.requirement(7)
@pytest.mark.requirement(9)
def test_a_rerun_is_a_new_attempt_and_the_old_one_keeps_its_bytes(store: StudyStore) -> None:
    with store.writing():
        lost = add_attempt(store, Specimen(verdict="not_run"))
        before = tree_digest(store.bundle(lost))
        again = add_attempt(store, Specimen(verdict="resolved"))
    assert (lost.path.rpartition("/")[2], again.path.rpartition("/")[2]) == ("a001", "a002")
    assert tree_digest(store.bundle(lost)) == before
    assert [unit.path for unit in store.accepted().values()] == [again.path]


@pytest.mark.requirement(13)
def test_a_cell_has_one_accepted_attempt(store: StudyStore) -> None:
    with store.writing():
        add_attempt(store, Specimen())
        with pytest.raises(ConflictError, match="one result a cell"):
            add_attempt(store, Specimen(salt="again"))
    assert len(store.accepted()) == 1


@pytest.mark.requirement(14)
def test_equal_bytes_from_two_attempts_stay_two_units(store: StudyStore) -> None:
    with store.writing():
        one = add_attempt(store, Specimen(verdict="not_run"))
        other = add_attempt(store, Specimen(verdict="not_run"))
    assert digest_file(store.bundle(one) / "live/trace.jsonl") == digest_file(store.bundle(other) / "live/trace.jsonl")
    assert one.digest != other.digest


@pytest.mark.requirement(12)
def test_a_dispatch_is_recorded_once_however_often_it_is_sent(store: StudyStore) -> None:
    with store.writing():
        add_attempt(store, Specimen())
        started = next(row for row in store.ledger.rows() if row.kind == "started")
        store.ledger.append("started", started.subject, None, {**started.detail, "resent": True})
    history = History.of(store.ledger.rows())
    assert list(history.started) == [started.subject]
    assert history.started[started.subject]["resent"] is True


@pytest.mark.requirement(10)
def test_a_cell_is_built_by_one_writer(store: StudyStore) -> None:
    with store.writing():
        first = begin_attempt(store, "c", {"cell_id": "x"})
        with pytest.raises(Busy, match="cell c"):
            begin_attempt(store, "c", {"cell_id": "x"})
        first.release()
        assert begin_attempt(store, "c", {"cell_id": "x"}).name == "a002"


def test_a_number_is_not_given_again_after_its_attempt_is_gone(store: StudyStore) -> None:
    with store.writing():
        begin_attempt(store, "c", {}).release()
        shutil.rmtree(store.path / "locks/sequences")
        assert begin_attempt(store, "c", {}).name == "a002"


@pytest.mark.requirement(8)
@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from([ATTEMPT, VERIFICATION, SCORE, REPLAY]), max_size=12))
def test_sequences_of_different_categories_are_independent(
    tmp_path_factory: pytest.TempPathFactory, order: list[Category]
) -> None:
    study = tmp_path_factory.mktemp("sequences")
    given_out = dict.fromkeys(order, 0)
    for category in order:
        name = allocate(study, "cells/c", category)
        assert name == category.name(category.first + given_out[category])
        given_out[category] += 1


def test_numbers_are_read_from_names_of_their_own_category_only() -> None:
    assert numbers(ATTEMPT, ["a001", "x/a012", "a01", "v003", "a1000", "aa002", "a001.abandoned"]) == [1, 12, 1000]


def _allocate(arguments: tuple[str, int]) -> list[str]:
    study, count = arguments
    return [allocate(Path(study), "cells/c", ATTEMPT) for _ in range(count)]


@pytest.mark.requirement(7)
def test_processes_never_get_the_same_number(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        names = [name for part in pool.map(_allocate, [(str(tmp_path), 25)] * 4) for name in part]
    assert sorted(names) == [ATTEMPT.name(number) for number in range(1, 101)]


@pytest.mark.requirement(42)
@pytest.mark.requirement(8)
def test_a_later_verification_is_a_bundle_of_its_own_that_names_its_source(store: StudyStore) -> None:
    with store.writing():
        attempt = add_attempt(store, Specimen())
        before = tree_digest(store.bundle(attempt))
        path = later_verification(store, attempt.path)
        assert path.endswith("verifications/v002")
        assert later_verification(store, attempt.path).endswith("verifications/v003")
    assert tree_digest(store.bundle(attempt)) == before
    assert store.history().units[path].detail["source"] == attempt.digest


@pytest.mark.requirement(41)
@pytest.mark.parametrize("verdict", ["resolved", "unresolved", "invalid", "not_run"])
def test_every_verdict_is_published_with_its_verification(store: StudyStore, verdict: str) -> None:
    with store.writing():
        unit = add_attempt(store, Specimen(verdict=verdict))
    assert (store.bundle(unit) / "post/verify.json").is_file()
    assert bool(store.accepted()) == (verdict != "not_run")


@pytest.mark.requirement(4)
def test_a_unit_published_by_a_killed_writer_gets_its_rows(store: StudyStore) -> None:
    with store.writing():
        unit = add_attempt(store, Specimen())
    keep = (store.path / "ledger.jsonl").read_bytes().splitlines(keepends=True)[:2]
    (store.path / "ledger.jsonl").write_bytes(b"".join(keep))
    (store.path / "latest.json").unlink()
    again = StudyStore.open(StudiesRoot.open(store.root.path), "s")
    with again.writing():
        assert reconcile(again) == [f"{unit.path}: was published, its ledger rows were missing"]
        assert reconcile(again) == []
    assert [one.path for one in again.accepted().values()] == [unit.path]


def test_acceptance_that_a_kill_separated_from_its_publication_is_completed(store: StudyStore) -> None:
    with store.writing():
        unit = add_attempt(store, Specimen())
    content = (store.path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (store.path / "ledger.jsonl").write_bytes(b"".join(content[:-1]))
    (store.path / "latest.json").unlink()
    again = StudyStore.open(StudiesRoot.open(store.root.path), "s")
    assert again.accepted() == {}
    with again.writing():
        reconcile(again)
    assert [one.path for one in again.accepted().values()] == [unit.path]


@pytest.mark.requirement(40)
def test_what_lies_under_cells_and_is_no_bundle_goes_to_quarantine_untouched(store: StudyStore) -> None:
    planted = store.path / "cells/c/attempts/a001"
    planted.mkdir(parents=True)
    (planted / "live.txt").write_bytes(b"half a bundle")
    with store.writing():
        (line,) = reconcile(store)
        assert "moved to quarantine/" in line
        assert begin_attempt(store, "c", {}).name == "a002"
    (row,) = [row for row in store.ledger.rows() if row.kind == "quarantined"]
    assert (store.path / row.detail["kept"] / "live.txt").read_bytes() == b"half a bundle"
    assert "manifest.json" in row.detail["reason"]


def test_stages_of_dead_owners_are_found_and_can_be_discarded(store: StudyStore) -> None:
    with store.writing():
        stage, _ = staged_attempt(store, Specimen())
        stage.release()
        attempt = add_attempt(store, Specimen(task="other"))
        later = begin_later(store, VERIFICATION, attempt.cell)
        later.path.mkdir()
        found = {one.unit: one for one in stages(store)}
        assert set(found) == {stage.unit, later.unit}
        discard(store, found[later.unit])
        assert [one.unit for one in stages(store)] == [stage.unit]


def test_ids_that_name_another_place_are_refused(store: StudyStore) -> None:
    with store.writing():
        stage, ids = staged_attempt(store, Specimen())
        with pytest.raises(EvidenceError, match="ids say"):
            publish_unit(store, stage, "attempt", ids | {"attempt": "a009"})
        with pytest.raises(EvidenceError, match="runtime"):
            publish_unit(store, stage, "attempt", {key: ids[key] for key in ids if key != "runtime"})


def test_an_abandoned_stage_is_salvaged_into_fresh_files_that_are_proved(store: StudyStore) -> None:
    with store.writing():
        stage, ids = staged_attempt(store, Specimen())
        digests = {
            str(path.relative_to(stage.path)): digest_file(path) for path in stage.path.rglob("*") if path.is_file()
        }
        stage.path.rename(stage.path.with_name(f"{stage.name}.abandoned"))
        stage.release()
        (found,) = stages(store)
        assert found.abandoned and found.unit == stage.unit
        fresh = salvage(store, found, digests)
        unit = publish_unit(store, fresh, "attempt", ids)
    assert unit.path == stage.unit
    assert stages_of(store) == []


def stages_of(store: StudyStore) -> list[Stage]:
    with store.writing():
        return stages(store)


def test_a_specimen_study_is_whole(tmp_path: Path) -> None:
    assert len(specimen_study(tmp_path, cells=3).accepted()) == 3
