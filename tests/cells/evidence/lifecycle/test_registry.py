"""The registry reads studies and writes only itself; a study that has moved on makes its snapshot stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells.errors import EvidenceError, UsageError
from cells.evidence.design_binding import tree_digest
from cells.evidence.lifecycle.registry import Child, Registry
from cells.evidence.specimen import Specimen, add_attempt, specimen_study
from cells.evidence.study_store import StudyStore


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return specimen_study(tmp_path / "studies", "s", cells=2)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry.ensure(tmp_path / "registry")


@pytest.mark.requirement(29)
def test_the_registry_never_writes_below_a_root(store: StudyStore, registry: Registry) -> None:
    before = tree_digest(store.root.path)
    for path in [store.root.path, *store.root.path.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    entry = registry.add(store.root.path, tags=["laptop"])
    registry.group("spring", [Child(entry["id"], "s")])
    registry.direct("spring", "look at the slow cells")
    (snapshot,) = registry.sync("spring")
    assert (snapshot["accepted"], snapshot["verdicts"]) == (2, {"resolved": 2})
    assert [row["study"] for row in registry.studies()] == ["s"]
    assert tree_digest(store.root.path) == before


@pytest.mark.requirement(30)
def test_a_study_that_moved_on_wins_over_its_snapshot(store: StudyStore, registry: Registry) -> None:
    entry = registry.add(store.root.path)
    registry.group("g", [Child(entry["id"], "s")])
    registry.sync("g")
    assert [one["state"] for one in registry.snapshots("g")] == ["current"]
    with store.writing():
        add_attempt(store, Specimen(task="later"))
    (stale,) = registry.snapshots("g")
    assert (stale["state"], stale["accepted"]) == ("stale", 2)
    registry.sync("g")
    assert [one["state"] for one in registry.snapshots("g")] == ["current"]
    store.root.path.rename(store.root.path.with_name("gone"))
    assert [one["state"] for one in registry.snapshots("g")] == ["unreachable"]


def test_a_root_that_moved_is_the_same_root(store: StudyStore, registry: Registry) -> None:
    entry = registry.add(store.root.path, tags=["a"])
    moved = store.root.path.with_name("moved")
    store.root.path.rename(moved)
    again = registry.add(moved, tags=["b"])
    assert (again["id"], again["tags"], again["path"]) == (entry["id"], ["a", "b"], str(moved))
    assert len(registry.roots()) == 1


def test_another_root_under_a_registered_path_is_not_taken_for_it(
    store: StudyStore, registry: Registry, tmp_path: Path
) -> None:
    entry = registry.add(store.root.path)
    registry.group("g", [Child(entry["id"], "s")])
    store.root.path.rename(tmp_path / "away")
    specimen_study(tmp_path / "studies", "s", cells=1)
    (snapshot,) = registry.sync("g")
    assert "was registered" in str(snapshot["error"])


@pytest.mark.requirement(20)
def test_names_that_have_no_safe_form_keep_their_original(registry: Registry) -> None:
    for name in ("Frühling", "日本語", "../up", ""):
        assert registry.group(name)["name"] == name
    folders = sorted(path.name for path in (registry.path / "groups").iterdir())
    assert len(folders) == 4
    assert all(folder.isascii() and ".." not in folder for folder in folders)
    assert any(folder.startswith("u-") for folder in folders)


def test_events_are_appended_and_rereading_adds_none(store: StudyStore, registry: Registry) -> None:
    entry = registry.add(store.root.path)
    registry.add(store.root.path)
    registry.group("g", [Child(entry["id"], "s")])
    registry.group("g", [Child(entry["id"], "s")])
    registry.tag(entry["id"], ["x"])
    kinds = (registry.path / "events.jsonl").read_text().count("kind")
    assert kinds == 4


def test_what_is_not_registered_is_said(registry: Registry, tmp_path: Path) -> None:
    for call in (
        lambda: registry.tag("nothing", ["x"]),
        lambda: registry.direct("nothing", "x"),
        lambda: registry.sync("nothing"),
        lambda: Child.of("no-study"),
        lambda: registry.direct(str(registry.group("g")["name"]), " "),
    ):
        with pytest.raises(UsageError):
            call()
    with pytest.raises(EvidenceError):
        registry.add(tmp_path)


@pytest.mark.requirement(32)
def test_a_registry_of_another_version_is_refused(registry: Registry) -> None:
    (registry.path / "registry.json").chmod(0o640)
    (registry.path / "registry.json").write_bytes(b'{"v":7}')
    with pytest.raises(EvidenceError, match="version 7"):
        Registry.ensure(registry.path)
