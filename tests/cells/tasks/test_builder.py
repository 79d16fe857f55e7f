"""The proof at the end of an image build: whatever could hold a later history in a base repository fails the build."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cells.incell.trusted.builder import (
    BuildFailed,
    copy_from_image,
    make_agent_repository,
    make_collector,
    prove_single_commit,
)
from cells.incell.trusted.objects import GitFailed
from cells.tasks.base_state import entries_of_directory, git_tree_id

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": "a@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(root: Path, *arguments: str, stdin: bytes = b"") -> str:
    """Run git in a tree."""
    done = subprocess.run(["git", *arguments], input=stdin, cwd=root, env=ENVIRONMENT, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base tree with both repositories made, as in an image."""
    root = tmp_path / "base"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_bytes(b"x = 1\r\n")
    (root / ".gitattributes").write_bytes(b"* text=auto\n")
    (root / "odd\nname").write_bytes(b"")
    tree, _ = make_collector(str(root), str(tmp_path / "collector.git"))
    make_agent_repository(str(root), str(tmp_path / "collector.git"), tree)
    return root


def test_both_repositories_hold_the_bytes_of_the_tree_in_one_commit(base: Path, tmp_path: Path) -> None:
    commit = prove_single_commit(str(base / ".git"))
    assert git(base, "status", "--porcelain") == ""
    assert git(base, "cat-file", "blob", f"{commit}:src/a.py") == "x = 1"
    (tmp_path / "plain").mkdir()
    subprocess.run(["cp", "-r", f"{base}/.", str(tmp_path / "plain")], check=True)
    subprocess.run(["rm", "-rf", str(tmp_path / "plain/.git")], check=True)
    assert git(base, "rev-parse", "HEAD^{tree}") == git_tree_id(entries_of_directory(tmp_path / "plain"))
    assert git(tmp_path, "--git-dir=collector.git", "rev-parse", "HEAD") == commit


def test_the_same_tree_gives_the_same_commit(base: Path, tmp_path: Path) -> None:
    tree, _ = make_collector(str(base), str(tmp_path / "again.git"))
    assert git(tmp_path, "--git-dir=again.git", "rev-parse", "HEAD") == prove_single_commit(str(base / ".git"))
    assert git(base, "rev-parse", "HEAD^{tree}") == tree


PLANTED: dict[str, Callable[[Path], object]] = {
    "a tag": lambda root: git(root, "tag", "v2"),
    "a branch": lambda root: git(root, "branch", "later"),
    "a second commit": lambda root: git(root, "commit", "-q", "--allow-empty", "-m", "the fix"),
    "an object that nothing reaches": lambda root: git(root, "hash-object", "-w", "--stdin", stdin=b"THE-FIX"),
    "a remote": lambda root: git(root, "remote", "add", "origin", "/elsewhere"),
    "a reflog": lambda root: (root / ".git/logs").mkdir(),
    "packed refs": lambda root: (root / ".git/packed-refs").write_text(""),
    "an old head": lambda root: (root / ".git/ORIG_HEAD").write_text(""),
    "hooks": lambda root: (root / ".git/hooks").mkdir(),
    "objects of another repository": lambda root: (
        (root / ".git/objects/info").mkdir(exist_ok=True),
        (root / ".git/objects/info/alternates").write_text("/nowhere\n"),
    ),
    "a stash": lambda root: ((root / "src/a.py").write_text("y"), git(root, "stash")),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_could_hold_a_later_history_fails_the_build(base: Path, name: str) -> None:
    prove_single_commit(str(base / ".git"))
    PLANTED[name](base)
    with pytest.raises((BuildFailed, GitFailed)):
        prove_single_commit(str(base / ".git"))


def test_a_base_with_a_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    os.mkfifo(tmp_path / "base/pipe")
    with pytest.raises(BuildFailed, match="pipe"):
        make_collector(str(tmp_path / "base"), str(tmp_path / "collector.git"))


def test_a_copy_out_of_an_image_leaves_every_git_behind(tmp_path: Path) -> None:
    source = tmp_path / "testbed"
    (source / "vendored/.git").mkdir(parents=True)
    (source / "submodule").mkdir()
    (source / "submodule/.git").write_text("gitdir: ../.git/modules/submodule\n")
    (source / "a").write_text("1")
    git(tmp_path, "init", "-q", str(source))
    found = copy_from_image(str(source), str(tmp_path / "copy"))
    assert found == f"{source}/.git"
    left = sorted(path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*"))
    assert left == ["a", "submodule", "vendored"]


def test_a_work_directory_without_a_repository_is_all_base(tmp_path: Path) -> None:
    (tmp_path / "testbed").mkdir()
    assert copy_from_image(str(tmp_path / "testbed"), str(tmp_path / "copy")) is None
