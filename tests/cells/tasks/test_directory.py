"""A task directory: what may lie in it, and what is refused before anything is made."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cells.errors import InputFileError
from cells.tasks import load_task
from cells.tasks.base_state import BaseEntry
from cells.tasks.tree import TreeCaps, TreeProblem, walk_tree


def test_a_right_directory_is_read(task_directory: Path) -> None:
    task = load_task(task_directory)
    assert (task.id, task.repository, task.has_gold) == ("demo", "demo", True)
    entries = task.base_entries()
    assert entries is not None
    assert list(entries) == [BaseEntry(b"calc.py", 0o100644, b"def add(a, b):\n    return a - b\n")]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no such task directory"):
        load_task(tmp_path / "nothing")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


SABOTAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "misspelt folder": (lambda d: ((d / "seald").mkdir(), (d / "seald/x").write_text("")), "seald"),
    "unknown file": (lambda d: (d / "solution.txt").write_text(""), "expected at the top"),
    "no prompt": (lambda d: (d / "prompt.md").unlink(), "prompt"),
    "empty prompt": (lambda d: (d / "prompt.md").write_text(""), "prompt"),
    "no tests": (lambda d: (d / "sealed/tests/tests/test_calc.py").unlink(), "hidden tests"),
    "no base state": (lambda d: (d / "repo/calc.py").unlink(), "base state"),
    "two base states": (lambda d: (d / "repo.tar").write_bytes(b"x"), "one place"),
    "history in the base": (lambda d: ((d / "repo/.git").mkdir(), (d / "repo/.git/HEAD").write_text("")), ".git"),
    "link out of the base": (lambda d: (d / "repo/out").symlink_to("../sealed/gold.patch"), "leaves the tree"),
    "absolute link": (lambda d: (d / "repo/out").symlink_to("/etc/passwd"), "stay inside"),
    "linked folder": (lambda d: (d / "repo/up").symlink_to(".."), "leaves the tree"),
    "link in the pack": (lambda d: (d / "sealed/x").symlink_to("../repo/calc.py"), "leaves the tree"),
    "linked prompt": (lambda d: ((d / "prompt.md").unlink(), (d / "prompt.md").symlink_to("task.toml")), "plain files"),
    "pipe": (lambda d: os.mkfifo(d / "repo/pipe"), "neither a regular file nor a link"),
    "socket": (lambda d: _socket(d / "repo/s"), "neither a regular file nor a link"),
    "not a picture": (lambda d: ((d / "prompt_images").mkdir(), (d / "prompt_images/a.exe").write_text("")), "picture"),
}


@pytest.mark.parametrize("name", SABOTAGE)
def test_what_a_task_may_not_hold_is_refused_by_name(task_directory: Path, name: str) -> None:
    spoil, expected = SABOTAGE[name]
    spoil(task_directory)
    with pytest.raises(InputFileError, match=expected.replace(".", r"\.")):
        load_task(task_directory)


def test_an_archive_is_walked_when_the_task_is_read(task_directory: Path) -> None:
    (task_directory / "repo/calc.py").unlink()
    (task_directory / "repo.tar").write_bytes(b"no archive")
    with pytest.raises(InputFileError, match="tar archive"):
        load_task(task_directory)


def test_links_inside_the_base_are_kept(task_directory: Path) -> None:
    (task_directory / "repo/alias.py").symlink_to("calc.py")
    entries = load_task(task_directory).base_entries()
    assert entries is not None
    assert BaseEntry(b"alias.py", 0o120000, b"calc.py") in list(entries)


def test_a_canary_template_must_be_there(rewrite: Callable[[str, str], Path]) -> None:
    directory = rewrite('runner = "pytest"', 'runner = "pytest"\ncanary = "canary.sh"')
    with pytest.raises(InputFileError, match="canary"):
        load_task(directory)
    (directory / "sealed/canary.sh").write_text("")
    assert load_task(directory).file.verify.canary == "canary.sh"


@pytest.mark.parametrize(
    ("caps", "expected"),
    [
        (TreeCaps(members=2), "more than 2 files"),
        (TreeCaps(file_bytes=10), "a file may have 10"),
        (TreeCaps(total_bytes=40), "more than 40 bytes"),
        (TreeCaps(depth=1), "deeper than 1"),
    ],
)
def test_caps(tmp_path: Path, caps: TreeCaps, expected: str) -> None:
    for name in ("a", "b/c", "b/d/e"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * 20)
    with pytest.raises(TreeProblem, match=expected):
        walk_tree(tmp_path, caps)
