"""Quarantine: moved aside byte for byte, with the reason, finished after a kill, never repaired."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cells.errors import EvidenceError
from cells.evidence.design_binding import tree_digest
from cells.evidence.fs_faults import Step, SteppedFileSystem
from cells.evidence.fs_real import REAL
from cells.evidence.quarantine import finish_quarantines, quarantine
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.verify import verify_path


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return specimen_study(tmp_path / "studies", "s", cells=2)


@pytest.mark.requirement(40)
def test_an_altered_bundle_keeps_its_bytes_and_its_identity_in_quarantine(store: StudyStore) -> None:
    unit = next(iter(store.accepted().values()))
    victim = store.bundle(unit) / "live/trace.jsonl"
    victim.chmod(0o640)
    victim.write_bytes(b"altered\n")
    before = tree_digest(store.bundle(unit))
    with store.writing():
        kept = quarantine(store, unit.path, "live/trace.jsonl: altered")
    assert tree_digest(store.path / kept) == before
    reason = json.loads((store.path / kept).parent.joinpath("reason.json").read_bytes())
    assert reason == {"v": 1, "path": unit.path, "reason": "live/trace.jsonl: altered"}
    row = store.ledger.rows()[-1]
    assert (row.kind, row.subject, row.digest, row.detail["kept"]) == ("quarantined", unit.path, unit.digest, kept)
    assert unit.cell not in store.accepted()
    assert verify_path(store.path).problems == []


def test_entries_count_up_and_replace_nothing(store: StudyStore) -> None:
    for number in (1, 2):
        (store.path / "replays/r009").mkdir(parents=True)
        (store.path / "replays/r009/x").write_text(str(number))
        with store.writing():
            kept = quarantine(store, "replays/r009", "no manifest")
        assert kept == f"quarantine/replays--r009.{number}/content"
        assert (store.path / kept / "x").read_text() == str(number)


def test_nothing_outside_the_study_can_be_moved(store: StudyStore, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    with store.writing():
        for path in ("../../precious", str(tmp_path / "precious"), "nothing/there"):
            with pytest.raises(EvidenceError):
                quarantine(store, path, "x")
    assert (tmp_path / "precious").is_dir()


@pytest.mark.parametrize("call", ["move_new", "sync_directory", "open_append"])
def test_a_quarantine_that_was_cut_off_is_finished(store: StudyStore, call: str) -> None:
    unit = next(iter(store.accepted().values()))
    before = tree_digest(store.bundle(unit))
    moved: list[str] = []

    def cut(step: Step) -> None:
        moved.append(step.call)
        if step.call == call and (call == "move_new" or "move_new" in moved):
            raise KeyboardInterrupt

    broken = StudyStore(store.root, "s", fs=SteppedFileSystem(REAL, cut))
    with pytest.raises(KeyboardInterrupt), broken.writing():
        quarantine(broken, unit.path, "altered")
    again = StudyStore.open(StudiesRoot.open(store.root.path), "s")
    with again.writing():
        assert len(finish_quarantines(again)) == 1
        assert finish_quarantines(again) == []
    (row,) = [row for row in again.ledger.rows() if row.kind == "quarantined"]
    assert tree_digest(again.path / row.detail["kept"]) == before
    assert unit.cell not in again.accepted()
