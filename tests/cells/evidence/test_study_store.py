"""A study directory: made whole or not at all, refused when it is not what its ledger binds, one writer at a time."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cells.errors import ConflictError, EnvironmentFault, EvidenceError, UsageError
from cells.evidence.digest import canonical_json
from cells.evidence.locks import Busy
from cells.evidence.removal import remove_tree
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, documents, empty_study, specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.verify import verify_path


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return empty_study(tmp_path / "studies", "s")


def reopened(store: StudyStore, *, frozen: bool = False) -> StudyStore:
    return StudyStore.open(StudiesRoot.open(store.root.path), store.name, frozen=frozen)


def test_a_new_study_appears_with_its_first_row(store: StudyStore) -> None:
    (row,) = store.ledger.rows()
    assert (row.kind, row.subject) == ("planned", "plan.lock.json")
    assert row.detail["root"] == {"id": store.root.id, "digest": store.root.digest}
    assert sorted(path.name for path in store.root.path.iterdir()) == [".locks", "root.json", "s"]


def test_a_study_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    root = StudiesRoot.ensure(tmp_path / "studies")

    def fail(draft: Path) -> None:
        (draft / "tasks").mkdir()
        raise OSError("no space left")

    with pytest.raises(OSError):
        StudyStore.create(root, "s", documents("s"), populate=fail)
    assert sorted(path.name for path in root.path.iterdir()) == [".locks", "root.json"]


def test_a_name_is_given_once(store: StudyStore) -> None:
    with pytest.raises(ConflictError, match="nothing was changed"):
        StudyStore.create(store.root, "s", documents("s"))


@pytest.mark.parametrize("name", ["", "..", "a/b", "Upper", ".hidden", "x" * 65])
def test_a_name_that_is_no_directory_of_ours_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        StudyStore.create(StudiesRoot.ensure(tmp_path), name, documents("s"))


@pytest.mark.requirement(24)
@pytest.mark.parametrize("name", ["study.json", "plan.lock.json"])
def test_a_frozen_file_that_was_changed_by_hand_is_named(store: StudyStore, name: str) -> None:
    path = store.path / name
    path.chmod(0o640)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(EvidenceError, match=rf"{name}: changed by hand.*Nothing was changed"):
        reopened(store)


@pytest.mark.requirement(21)
def test_frozen_tasks_that_were_changed_are_refused_before_a_run(tmp_path: Path) -> None:
    def tasks(draft: Path) -> None:
        (draft / "tasks/t/sealed").mkdir(parents=True)
        (draft / "tasks/t/sealed/test_x.py").write_bytes(b"assert True\n")

    root = StudiesRoot.ensure(tmp_path)
    store = StudyStore.create(root, "s", documents("s"), populate=tasks)
    assert reopened(store, frozen=True).name == "s"
    (store.path / "tasks/t/sealed/test_x.py").write_bytes(b"assert False\n")
    with pytest.raises(EvidenceError, match="tasks/t: expected"):
        reopened(store, frozen=True)


@pytest.mark.requirement(32)
def test_a_study_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    root = StudiesRoot.ensure(tmp_path)
    newer = documents("s") | {"plan.lock.json": canonical_json({"v": 9, "study": "s"})}
    with pytest.raises(EvidenceError, match="schema version 9; this version of Assay reads 1"):
        StudyStore.create(root, "s", newer)


def test_a_study_copied_under_another_root_is_refused_with_the_way_to_bring_it(
    store: StudyStore, tmp_path: Path
) -> None:
    other = StudiesRoot.ensure(tmp_path / "other")
    shutil.copytree(store.path, other.path / "s")
    with pytest.raises(EvidenceError, match="assay restore"):
        StudyStore.open(other, "s")


@pytest.mark.requirement(19)
@pytest.mark.requirement(45)
def test_a_whole_root_moves_and_holds_its_place_in_one_file_only(tmp_path: Path) -> None:
    store = specimen_study(tmp_path / "studies", cells=2)
    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere/renamed"
    store.root.path.rename(moved)
    root = StudiesRoot.open(moved)
    assert root.has_moved
    assert len(StudyStore.open(root, "specimen").accepted()) == 2
    holders = [
        str(path.relative_to(moved))
        for path in moved.rglob("*")
        if path.is_file() and os.fsencode(tmp_path) in path.read_bytes()
    ]
    assert holders == ["root.json"]


@pytest.mark.requirement(10)
def test_a_second_writer_is_refused_by_the_name_of_the_first(store: StudyStore) -> None:
    with store.writing(), pytest.raises(Busy, match=rf"study s is being written by process {os.getpid()}"):
        with reopened(store).writing():
            pass
    with reopened(store).writing():
        pass


def test_units_cannot_be_written_without_the_lock(store: StudyStore) -> None:
    with pytest.raises(RuntimeError, match="without holding its lock"):
        add_attempt(store, Specimen())


def test_a_revision_is_a_new_file_with_a_row(store: StudyStore) -> None:
    content = canonical_json({"v": 1, "study": "s", "revision": 2})
    with store.writing():
        first = store.revise("plan.lock.r002.json", content, {"reason": "more samples"})
        assert store.revise("plan.lock.r002.json", content, {"reason": "more samples"}) == first
        with pytest.raises(ConflictError):
            store.revise("plan.lock.r002.json", content + b"\n", {})
    assert reopened(store).plan() == ("plan.lock.r002.json", content)
    (store.path / "plan.lock.r002.json").chmod(0o640)
    (store.path / "plan.lock.r002.json").write_bytes(b"{}")
    with pytest.raises(EvidenceError, match="r002"):
        reopened(store)


@pytest.mark.requirement(34)
def test_resuming_names_accepted_attempts_that_are_gone_and_changes_nothing(tmp_path: Path) -> None:
    store = specimen_study(tmp_path / "studies", cells=3)
    victim = next(iter(store.accepted().values()))
    remove_tree(store.bundle(victim))
    before = sorted(str(path) for path in store.path.rglob("*"))
    with pytest.raises(EvidenceError, match=victim.path):
        reopened(store).accepted()
    assert sorted(str(path) for path in store.path.rglob("*")) == before


@pytest.mark.requirement(36)
def test_another_runtime_fingerprint_is_refused_unless_accepted(tmp_path: Path) -> None:
    store = specimen_study(tmp_path / "studies", cells=1)
    mine = next(iter(store.accepted().values())).detail["runtime"]
    assert store.check_runtime(mine, accept_change=False) == []
    with pytest.raises(EvidenceError, match="accept-runtime-change"):
        store.check_runtime("sha256:other", accept_change=False)
    assert store.check_runtime("sha256:other", accept_change=True) == [mine]


def test_a_read_only_place_is_an_environment_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault):
        StudiesRoot.ensure(tmp_path / "file/studies")


def test_a_root_of_another_version_is_refused(tmp_path: Path) -> None:
    StudiesRoot.ensure(tmp_path)
    document = json.loads((tmp_path / "root.json").read_text()) | {"v": 2}
    (tmp_path / "root.json").chmod(0o640)
    (tmp_path / "root.json").write_text(json.dumps(document))
    with pytest.raises(EvidenceError, match="version 2"):
        StudiesRoot.open(tmp_path)


def test_a_revision_cut_off_before_its_row_leaves_a_study_that_opens_and_says_so(tmp_path: Path) -> None:
    """New tasks and scripts were frozen, then the power went: nothing that is bound changed."""

    def populate(draft: Path) -> None:
        (draft / "tasks/t").mkdir(parents=True)
        (draft / "tasks/t/task.toml").write_bytes(b"id = 1\n")
        (draft / "inputs/scripts").mkdir(parents=True)
        (draft / "inputs/scripts/a.jsonl").write_bytes(b"{}\n")

    store = StudyStore.create(StudiesRoot.ensure(tmp_path), "s", documents("s"), populate=populate)
    (store.path / "tasks/u").mkdir()
    (store.path / "tasks/u/task.toml").write_bytes(b"id = 2\n")
    (store.path / "inputs/scripts/b.jsonl").write_bytes(b"{}\n")
    assert reopened(store, frozen=True).name == "s"
    problems = verify_path(store.path).problems
    assert {(problem.path, problem.kind) for problem in problems} == {
        ("tasks/u", "unfinished"),
        ("inputs/scripts/b.jsonl", "unfinished"),
    }
    with store.writing():
        store.revise("plan.lock.r002.json", canonical_json({"v": 1, "revision": 2}), {})
    assert verify_path(store.path).ok
    (store.path / "inputs/scripts/a.jsonl").write_bytes(b"{ }\n")
    with pytest.raises(EvidenceError, match="inputs/scripts/a.jsonl: expected"):
        reopened(store, frozen=True)
