"""A study of an older version still opens, is never rewritten, and is not mixed with newer rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cells.errors import EvidenceError
from cells.evidence.catalog import catalog_document
from cells.evidence.design_binding import tree_digest
from cells.evidence.digest import canonical_json
from cells.evidence.ledger import Ledger
from cells.evidence.lifecycle.fork import fork
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.upgrades import UPGRADES, upgrade_row_v0
from cells.evidence.verify import verify_path

GOLDEN = Path(__file__).parents[2] / "data/studies_v0"


@pytest.fixture
def old(tmp_path: Path) -> StudyStore:
    """The golden study of version 0, copied: a check of evidence would not notice, a writer would."""
    shutil.copytree(GOLDEN, tmp_path / "studies")
    return StudyStore.open(StudiesRoot.open(tmp_path / "studies"), "old")


@pytest.mark.requirement(32)
def test_the_golden_old_study_still_opens_and_verifies(old: StudyStore) -> None:
    before = tree_digest(old.root.path)
    assert len(old.accepted()) == 2
    assert verify_path(old.root.path).problems == []
    assert [row.who for row in old.ledger.rows()] == ["assay 0.0"] * len(old.ledger.rows())
    assert len(catalog_document(old.ledger.rows(), old.ledger.head)["units"]) == 2
    assert tree_digest(old.root.path) == before


@pytest.mark.requirement(32)
def test_damage_of_an_old_study_is_seen(old: StudyStore) -> None:
    content = (old.path / "ledger.jsonl").read_bytes()
    (old.path / "ledger.jsonl").write_bytes(content.replace(b'"resolved"', b'"Resolved"', 1))
    assert not verify_path(old.path).ok


@pytest.mark.requirement(32)
def test_an_old_ledger_takes_no_new_rows_and_a_fork_goes_on(old: StudyStore) -> None:
    before = (old.path / "ledger.jsonl").read_bytes()
    with old.writing(), pytest.raises(EvidenceError, match="assay fork"):
        add_attempt(old, Specimen(task="new"))
    assert (old.path / "ledger.jsonl").read_bytes() == before
    made = fork(old, "new")
    with made.writing():
        add_attempt(made, Specimen())
    assert verify_path(made.path).problems == []


@pytest.mark.requirement(32)
def test_versions_are_not_mixed_in_one_ledger(old: StudyStore, tmp_path: Path) -> None:
    newer = specimen_study(tmp_path / "newer", "s", cells=1).path / "ledger.jsonl"
    lines = (old.path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    row = json.loads(newer.read_bytes().splitlines()[0])
    row |= {"seq": len(lines), "prev": Ledger.open(old.path).head}
    (old.path / "ledger.jsonl").write_bytes(b"".join(lines) + canonical_json(row) + b"\n")
    (problem,) = verify_path(old.path).problems
    assert "does not mix them" in problem.detail


def test_an_upgrade_step_is_pure_and_refuses_what_is_not_its_version() -> None:
    row = json.loads((GOLDEN / "old/ledger.jsonl").read_bytes().splitlines()[0])
    kept = json.dumps(row, sort_keys=True)
    assert upgrade_row_v0(row)["who"] == "assay 0.0"
    assert json.dumps(row, sort_keys=True) == kept
    with pytest.raises(ValueError, match="expected the fields"):
        upgrade_row_v0({**row, "who": "x"})
    assert sorted(UPGRADES) == [0]
