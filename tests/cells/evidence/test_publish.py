"""Publishing: one path, create-only, orphans adopted when identical, staged bytes verified before they are visible."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cells.errors import ConflictError, EvidenceError
from cells.evidence.fs_faults import Step, SteppedFileSystem
from cells.evidence.fs_real import REAL, RealFileSystem
from cells.evidence.manifest import MANIFEST, Statement, build_statement, verify_bundle
from cells.evidence.publish import ABANDONED, Already, Published, StageAbandoned, publish, publish_file


def stage_of(root: Path, name: str, content: bytes = b"one") -> tuple[Path, Statement]:
    stage = root / name
    (stage / "inner").mkdir(parents=True)
    (stage / "a").write_bytes(content)
    (stage / "inner/b").write_bytes(b"two")
    return stage, build_statement(stage, "note", {"id": 1})


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.requirement(2)
def test_a_unit_appears_whole_by_one_rename(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "s")
    seen: list[str] = []

    def watch(step: Step) -> None:
        if step.call == "move_new":
            seen.extend(sorted(path.name for path in stage.rglob("*") if path.is_file()))
            assert not (tmp_path / "deep").joinpath("unit").exists()

    result = publish(stage, tmp_path / "deep/unit", statement, SteppedFileSystem(REAL, watch))
    assert result == Published(tmp_path / "deep/unit", statement.digest)
    assert seen == ["a", "b", MANIFEST]
    assert not stage.exists()


def test_the_marker_is_the_last_file_that_is_made(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "s")
    calls: list[str] = []
    publish(stage, tmp_path / "unit", statement, SteppedFileSystem(REAL, lambda step: calls.append(step.call)))
    assert calls.count("create") == 1
    after = calls[calls.index("create") :]
    assert "open" not in after and after.index("move_new") > after.index("fsync")


@pytest.mark.requirement(3)
def test_other_bytes_under_the_same_name_are_refused(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "one")
    publish(stage, tmp_path / "unit", statement)
    before = contents(tmp_path / "unit")
    stage, statement = stage_of(tmp_path, "other", b"changed")
    with pytest.raises(ConflictError, match="nothing was replaced"):
        publish(stage, tmp_path / "unit", statement)
    assert contents(tmp_path / "unit") == before
    assert stage.exists()


@pytest.mark.requirement(4)
def test_a_byte_identical_orphan_is_adopted(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "one")
    publish(stage, tmp_path / "unit", statement)
    stage, again = stage_of(tmp_path, "two")
    assert publish(stage, tmp_path / "unit", again) == Already(tmp_path / "unit", statement.digest)
    assert not stage.exists()


@pytest.mark.requirement(4)
def test_an_orphan_one_byte_off_is_refused(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "one")
    publish(stage, tmp_path / "unit", statement)
    (tmp_path / "unit/a").chmod(0o640)
    (tmp_path / "unit/a").write_bytes(b"onf")
    stage, again = stage_of(tmp_path, "two")
    with pytest.raises(ConflictError, match="not a valid bundle"):
        publish(stage, tmp_path / "unit", again)


@pytest.mark.requirement(6)
def test_bytes_that_changed_since_the_statement_are_not_published(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "s")
    (stage / "a").write_bytes(b"own")
    with pytest.raises(EvidenceError, match="read back"):
        publish(stage, tmp_path / "unit", statement)
    assert not (tmp_path / "unit").exists()


@pytest.mark.requirement(6)
def test_a_write_that_only_pretended_is_found_before_the_rename(tmp_path: Path) -> None:
    class Pretender(RealFileSystem):
        def write(self, handle: int, content: bytes) -> int:
            return super().write(handle, content[:-1]) + 1

    stage, statement = stage_of(tmp_path, "s")
    with pytest.raises(EvidenceError, match="reads back differently"):
        publish(stage, tmp_path / "unit", statement, Pretender())
    assert not (tmp_path / "unit").exists()


def test_a_file_that_came_after_the_statement_is_not_published(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "s")
    (stage / "late").write_bytes(b"x")
    with pytest.raises(EvidenceError):
        publish(stage, tmp_path / "unit", statement)
    assert not (tmp_path / "unit").exists()


def test_a_marker_that_a_killed_publisher_left_half_written_is_written_again(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "s")
    (stage / MANIFEST).write_bytes(statement.to_bytes()[:40])
    assert isinstance(publish(stage, tmp_path / "unit", statement), Published)
    assert verify_bundle(tmp_path / "unit") == []


@pytest.mark.requirement(9)
def test_a_published_unit_is_read_only(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "s")
    publish(stage, tmp_path / "unit", statement)
    modes = {path.stat().st_mode & 0o222 for path in [tmp_path / "unit", *(tmp_path / "unit").rglob("*")]}
    assert modes == {0}


def test_after_a_failed_fsync_the_stage_is_set_aside_for_ever(tmp_path: Path) -> None:
    stage, statement = stage_of(tmp_path, "s")

    def fail(step: Step) -> None:
        if step.call == "fsync":
            raise OSError(errno.EIO, "fsync")

    with pytest.raises(StageAbandoned):
        publish(stage, tmp_path / "unit", statement, SteppedFileSystem(REAL, fail))
    assert not stage.exists() and not (tmp_path / "unit").exists()
    assert (tmp_path / f"s{ABANDONED}").is_dir()


def test_an_unknown_outcome_is_settled_by_running_again(tmp_path: Path) -> None:
    """The fsync of the parent fails after the rename: visible, durability unknown; the rerun fsyncs the parent
    again."""
    stage, statement = stage_of(tmp_path, "s")

    def fail(step: Step) -> None:
        if step.call == "sync_directory" and step.name == str(tmp_path / "units"):
            raise OSError(errno.EIO, "fsync")

    (tmp_path / "units").mkdir()
    with pytest.raises(OSError):
        publish(stage, tmp_path / "units/u", statement, SteppedFileSystem(REAL, fail))
    synced: list[str] = []

    def note(step: Step) -> None:
        if step.call == "sync_directory":
            synced.append(step.name)

    stage, statement = stage_of(tmp_path, "s2")
    assert isinstance(publish(stage, tmp_path / "units/u", statement, SteppedFileSystem(REAL, note)), Already)
    assert str(tmp_path / "units") in synced


def test_without_renameat2_nothing_that_exists_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cells.evidence.fs_real._rename_no_replace", lambda source, destination: errno.ENOSYS)
    stage, statement = stage_of(tmp_path, "s")
    assert isinstance(publish(stage, tmp_path / "unit", statement), Published)
    stage, statement = stage_of(tmp_path, "s2", b"other")
    with pytest.raises(ConflictError):
        publish(stage, tmp_path / "unit", statement)
    with pytest.raises(OSError):
        REAL.move_new(stage, tmp_path / "unit")
    assert verify_bundle(tmp_path / "unit") == []


def test_a_file_is_published_once(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name, content in (("one", b"export"), ("same", b"export"), ("other", b"another")):
        (tmp_path / name).write_bytes(content)
    assert isinstance(publish_file(tmp_path / "one", tmp_path / "out/x"), Published)
    assert isinstance(publish_file(tmp_path / "same", tmp_path / "out/x"), Already)
    with pytest.raises(ConflictError):
        publish_file(tmp_path / "other", tmp_path / "out/x")
    assert (tmp_path / "out/x").read_bytes() == b"export"
    assert os.stat(tmp_path / "out/x").st_nlink == 1
    assert not (tmp_path / "one").exists()
