"""Freezing: the same bytes have the same digest anywhere, a changed byte is named, sealed/ is closed."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.errors import ConflictError, EvidenceError
from cells.tasks import freeze, load_task, open_frozen
from cells.tasks.tree import EXECUTABLE, FILE, LINK, Member, tree_digest


def test_freezing_changes_no_digest(task_directory: Path, tmp_path: Path) -> None:
    task = load_task(task_directory)
    frozen = freeze(task, tmp_path / "frozen")
    assert frozen.sha256 == task.sha256 == open_frozen(tmp_path / "frozen").sha256
    assert frozen.prompt == b"mend it\n"
    assert frozen.gold_patch() == b"diff --git a/calc.py b/calc.py\n"


def test_times_owners_and_other_mode_bits_do_not_count(task_directory: Path) -> None:
    before = load_task(task_directory).sha256
    os.utime(task_directory / "repo/calc.py", (1, 1))
    os.chmod(task_directory / "repo/calc.py", 0o640)
    assert load_task(task_directory).sha256 == before


def test_sealed_is_closed_and_live_has_no_path(task_directory: Path, tmp_path: Path) -> None:
    frozen = freeze(load_task(task_directory), tmp_path / "frozen")
    assert stat.S_IMODE(frozen.sealed.stat().st_mode) == 0o700
    assert not any(isinstance(value, Path) or str(tmp_path) in repr(value) for value in vars(frozen.live()).values())


def test_the_same_task_again_is_the_same(task_directory: Path, tmp_path: Path) -> None:
    task = load_task(task_directory)
    assert freeze(task, tmp_path / "frozen") == freeze(task, tmp_path / "frozen")


def test_another_task_under_the_name_is_a_conflict(task_directory: Path, tmp_path: Path) -> None:
    freeze(load_task(task_directory), tmp_path / "frozen")
    (task_directory / "prompt.md").write_text("something else\n")
    with pytest.raises(ConflictError, match="never replaced"):
        freeze(load_task(task_directory), tmp_path / "frozen")
    assert open_frozen(tmp_path / "frozen").prompt == b"mend it\n"


def test_a_killed_freeze_leaves_nothing_that_counts(task_directory: Path, tmp_path: Path) -> None:
    task = load_task(task_directory)
    stage = tmp_path / f".frozen.{os.getpid()}.freezing"
    (stage / "repo").mkdir(parents=True)
    (stage / "repo/half").write_text("")
    assert freeze(task, tmp_path / "frozen").sha256 == task.sha256
    assert not stage.exists()


def _flip(path: Path) -> None:
    os.chmod(path, 0o600)
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (lambda d: _flip(d / "repo/calc.py"), "repo/calc.py"),
    "a flipped bit in the pack": (lambda d: _flip(d / "sealed/gold.patch"), "sealed/gold.patch"),
    "a mode bit": (lambda d: os.chmod(d / "repo/calc.py", 0o755), "repo/calc.py"),
    "a file more": (lambda d: (d / "repo/new").write_text(""), "repo/new"),
    "a file less": (lambda d: (d / "sealed/gold.patch").unlink(), "sealed/gold.patch"),
    "a link for a file": (
        lambda d: ((d / "repo/calc.py").unlink(), (d / "repo/calc.py").symlink_to("x")),
        "repo/calc.py",
    ),
    "no record": (lambda d: (d / "freeze.json").unlink(), "freeze.json"),
    "another version": (
        lambda d: ((d / "freeze.json").unlink(), (d / "freeze.json").write_text('{"v": 99}')),
        "version 1",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_changed_is_named(task_directory: Path, tmp_path: Path, name: str) -> None:
    freeze(load_task(task_directory), tmp_path / "frozen")
    shutil.copytree(tmp_path / "frozen", tmp_path / "copy", symlinks=True)
    spoil, expected = DAMAGE[name]
    spoil(tmp_path / "copy")
    with pytest.raises(EvidenceError, match=expected):
        open_frozen(tmp_path / "copy")
    open_frozen(tmp_path / "frozen")


MEMBERS = st.lists(
    st.builds(
        Member,
        path=st.binary(min_size=1, max_size=6),
        mode=st.sampled_from([FILE, EXECUTABLE, LINK]),
        size=st.just(0),
        sha256=st.sampled_from(["sha256:a", "sha256:b"]),
    ),
    max_size=4,
    unique_by=lambda member: member.path,
)


@given(MEMBERS, MEMBERS)
def test_the_tree_digest_tells_trees_apart(one: list[Member], other: list[Member]) -> None:
    def facts(members: list[Member]) -> set[tuple[bytes, int, str]]:
        return {(member.path, member.mode, member.sha256) for member in members}

    assert (tree_digest(one) == tree_digest(other)) == (facts(one) == facts(other))
