"""What agents do to a work tree: a base and named changes of it, for round trips of patch collection.

Rule: base + collected patch == changed tree (every `.git` aside), byte for byte and mode for mode.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Mutation = Callable[[Path], None]
MUTATIONS: dict[str, Mutation] = {}
"""By name."""
EMPTY = {"prebuilt_untracked", "nothing"}
"""Those after which the tree is still the base."""
IGNORED = {"ignored_new": 2}
"""How many new files the base's own ignore rules cover."""

ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "t"), ("EMAIL", "t@t"))
    },
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
}


def git(tree: Path, *arguments: str) -> None:
    """Run git as a user of the tree would."""
    subprocess.run(["git", *arguments], cwd=tree, env=ENVIRONMENT, check=True, capture_output=True)


def put(tree: Path, name: str | bytes, content: bytes, mode: int = 0o644) -> None:
    """Write a file and the directories above it."""
    path = os.path.join(os.fsencode(tree), os.fsencode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)


def make_base(tree: Path) -> None:
    """The base: a repository with one commit, and a file that the image build left untracked."""
    tree.mkdir(parents=True, exist_ok=True)
    git(tree, "init", "-q", "-b", "main")
    put(tree, "src/calc.py", b"def add(a, b):\n    return a - b\n")
    put(tree, "src/dos.py", b"first = 1\r\nsecond = 2\r\n")
    put(tree, "src/open_end.txt", b"the last line does not end")
    put(tree, "tools/go.sh", b"#!/bin/sh\nexit 0\n", 0o755)
    put(tree, "assets/table.bin", bytes(range(256)) * 3)
    put(tree, "manual/first page.md", b"A line of the manual.\n" * 25)
    put(tree, "inner/link_target.txt", b"target\n")
    os.symlink("inner/link_target.txt", tree / "shortcut")
    put(tree, ".gitignore", b"out/\n*.log\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "base")
    put(tree, "out/generated.py", b"made_by = 'the image build'\n")


def mutation(function: Mutation) -> Mutation:
    """Register a change under its name."""
    MUTATIONS[function.__name__] = function
    return function


def _file(name: str, path: str | bytes, content: bytes, mode: int = 0o644) -> None:
    MUTATIONS[name] = lambda tree: put(tree, path, content, mode)


_FIXED = b"def add(a, b):\n    return a + b\n"
_file("edit_text", "src/calc.py", _FIXED)
_file("crlf_edit", "src/dos.py", b"first = 1\r\nsecond = 3\r\n")
_file("crlf_to_lf", "src/dos.py", b"first = 1\nsecond = 2\n")
_file("lf_to_crlf", "src/calc.py", b"def add(a, b):\r\n    return a - b\r\n")
_file("mixed_cr", "src/calc.py", b"def add(a, b):\r    return a - b\n\r\n\n")
_file("no_eof_newline", "src/calc.py", b"def add(a, b):\n    return a - b")
_file("add_eof_newline", "src/open_end.txt", b"the last line does not end\n")
_file("binary_edit", "assets/table.bin", bytes(range(255, -1, -1)) * 3)
_file("binary_new", "assets/more.bin", b"\x00\xff\x10" * 900)
_file("late_nul", "src/calc.py", b"# text\n" * 2000 + b"\x00 and more\n")
_file("empty_new", "src/__init__.py", b"")
_file("empty_existing", "src/calc.py", b"")
_file("new_untracked", "src/fresh.py", b"fresh = True\n")
_file("prebuilt_changed", "out/generated.py", b"made_by = 'the agent'\n")
_file("name_space", "src/a name.py", b"x = 1\n")
_file("name_tab_newline", b"src/t\tab\nline.py", b"x = 1\n")
_file("name_quotes", b'src/it\'s "so\\called".py', b"x = 1\n")
_file("name_not_utf8", b"src/\xe9\xff\x80.py", b"x = 1\n")
_file("name_control", b"src/\x01\x1b[31m\x7f.py", b"x = 1\n")
_file("name_pathspec_magic", ":(top)x;/:!y.py", b"x\n")
_file("name_dev_null", "dev/null", b"x\n")
_file("deep_tree", "/".join(["deep"] * 60) + "/leaf.txt", b"far down\n")
_file("big_text", "src/long.py", b"value = 1\n" * 240_000)
_file(
    "diff_lookalike",
    "src/story.txt",
    b"diff --git a/y b/y\nindex 0..1\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-was\n+is\n\\ No newline at end of file\n"
    b"GIT binary patch\n",
)
_file("git_refuses_ntfs_name", "src/git~1/x.py", b"x = 1\n")


@mutation
def nothing(tree: Path) -> None:
    """The agent did nothing."""


@mutation
def prebuilt_untracked(tree: Path) -> None:
    """What the image build left untracked is the base's, not the agent's."""


@mutation
def mode_only(tree: Path) -> None:
    (tree / "src/calc.py").chmod(0o755)


@mutation
def mode_dropped(tree: Path) -> None:
    (tree / "tools/go.sh").chmod(0o644)


@mutation
def mode_and_text(tree: Path) -> None:
    put(tree, "src/calc.py", _FIXED, 0o755)


@mutation
def unreadable(tree: Path) -> None:
    put(tree, "src/calc.py", _FIXED, 0o000)
    (tree / "manual").chmod(0o000)


@mutation
def delete(tree: Path) -> None:
    (tree / "src/calc.py").unlink()


@mutation
def delete_everything(tree: Path) -> None:
    for entry in tree.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


@mutation
def rename(tree: Path) -> None:
    (tree / "manual/first page.md").rename(tree / "manual/opening page.md")


@mutation
def file_becomes_dir(tree: Path) -> None:
    (tree / "src/calc.py").unlink()
    put(tree, "src/calc.py/inside.py", b"x = 1\n")


@mutation
def dir_becomes_file(tree: Path) -> None:
    shutil.rmtree(tree / "src")
    put(tree, "src", b"a file now\n")


@mutation
def empty_directory(tree: Path) -> None:
    (tree / "src/nothing_in_it").mkdir()


EMPTY.add("empty_directory")


@mutation
def ignored_new(tree: Path) -> None:
    put(tree, "out/result.bin", b"\x00result")
    put(tree, "session.log", b"line\n")


@mutation
def commits_then_clean(tree: Path) -> None:
    put(tree, "src/calc.py", _FIXED)
    git(tree, "commit", "-qam", "done")


@mutation
def commits_amend(tree: Path) -> None:
    put(tree, "src/calc.py", _FIXED)
    git(tree, "commit", "-qa", "--amend", "-m", "another history")


@mutation
def staged_only(tree: Path) -> None:
    put(tree, "src/calc.py", _FIXED)
    git(tree, "add", "-A")


@mutation
def git_removed(tree: Path) -> None:
    put(tree, "src/calc.py", _FIXED)
    shutil.rmtree(tree / ".git")


@mutation
def git_replaced_by_link(tree: Path) -> None:
    put(tree, "src/calc.py", _FIXED)
    shutil.rmtree(tree / ".git")
    os.symlink("/etc", tree / ".git")


@mutation
def assume_unchanged(tree: Path) -> None:
    git(tree, "update-index", "--assume-unchanged", "src/calc.py")
    put(tree, "src/calc.py", _FIXED)


@mutation
def skip_worktree(tree: Path) -> None:
    git(tree, "update-index", "--skip-worktree", "src/calc.py")
    put(tree, "src/calc.py", _FIXED)


@mutation
def attributes_eol(tree: Path) -> None:
    put(tree, ".gitattributes", b"*.py text eol=crlf ident working-tree-encoding=UTF-16\n* -diff\n")
    put(tree, "src/calc.py", _FIXED + b"# $Id$\n")


@mutation
def attributes_filter(tree: Path) -> None:
    put(tree, ".gitattributes", b"*.py filter=trap diff=trap\n")
    for key in ("filter.trap.clean", "filter.trap.process", "diff.trap.command", "diff.trap.textconv"):
        git(tree, "config", key, "touch /tmp/assay-trap-was-run; false")
    git(tree, "config", "core.fsmonitor", "touch /tmp/assay-trap-was-run; false")
    put(tree, "src/calc.py", _FIXED)


@mutation
def name_dash(tree: Path) -> None:
    put(tree, "-rf", b"x\n")
    put(tree, "--help", b"x\n")


@mutation
def name_ab_prefix(tree: Path) -> None:
    put(tree, "a/b/a.py", b"x\n")
    put(tree, "b/a/b.py", b"x\n")


@mutation
def name_nfc_nfd(tree: Path) -> None:
    put(tree, "src/\u00fc.py", b"one\n")
    put(tree, "src/u\u0308.py", b"two\n")


@mutation
def name_case(tree: Path) -> None:
    put(tree, "src/Calc.py", b"x = 1\n")
    put(tree, "SRC/calc.py", b"x = 2\n")


@mutation
def link_inside(tree: Path) -> None:
    os.symlink("calc.py", tree / "src/also.py")


@mutation
def link_outside(tree: Path) -> None:
    os.symlink("/etc/hostname", tree / "src/out")


@mutation
def link_dangling(tree: Path) -> None:
    os.symlink("is/not/there", tree / "src/loose")


@mutation
def link_strange_target(tree: Path) -> None:
    os.symlink(b"one\ntwo\xff\t", os.fsencode(tree / "src/odd"))


@mutation
def link_replaces_file(tree: Path) -> None:
    (tree / "src/calc.py").unlink()
    os.symlink("dos.py", tree / "src/calc.py")


@mutation
def file_replaces_link(tree: Path) -> None:
    (tree / "shortcut").unlink()
    put(tree, "shortcut", b"inner/link_target.txt")


@mutation
def dir_replaces_link(tree: Path) -> None:
    (tree / "shortcut").unlink()
    put(tree, "shortcut/now.txt", b"x\n")


@mutation
def link_retargeted(tree: Path) -> None:
    (tree / "shortcut").unlink()
    os.symlink("src/calc.py", tree / "shortcut")


@mutation
def link_replaces_dir(tree: Path) -> None:
    shutil.rmtree(tree / "src")
    os.symlink("manual", tree / "src")


@mutation
def nested_repo(tree: Path) -> None:
    make_base(tree / "vendor/other")


@mutation
def git_file_redirect(tree: Path) -> None:
    put(tree, "part/.git", b"gitdir: /nonexistent\n")
    put(tree, "part/code.py", b"x = 1\n")


@mutation
def git_in_capitals(tree: Path) -> None:
    put(tree, "part/.GIT/config", b"[core]\n")
    put(tree, "part/code.py", b"x = 1\n")


@mutation
def gitmodules_is_a_link(tree: Path) -> None:
    os.symlink("src/calc.py", tree / ".gitmodules")
    put(tree, "src/calc.py", _FIXED)


@mutation
def fifo_beside(tree: Path) -> None:
    os.mkfifo(tree / "src/pipe")
    os.mkfifo(tree / "part.gitignore")
    put(tree, "src/calc.py", _FIXED)


@mutation
def ignore_rules_are_a_fifo(tree: Path) -> None:
    (tree / ".gitignore").unlink()
    os.mkfifo(tree / ".gitignore")
    put(tree, "session.log", b"line\n")


@mutation
def hard_links(tree: Path) -> None:
    os.link(tree / "src/calc.py", tree / "src/twin.py")


@mutation
def too_deep(tree: Path) -> None:
    put(tree, "src/calc.py", _FIXED)
    descriptor = os.open(tree, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)


@mutation
def many_files(tree: Path) -> None:
    for number in range(400):
        put(tree, f"many/{number % 20}/file{number}.py", b"x = %d\n" % number)


if (
    __name__ == "__main__"
):  # in a container: DIRECTORY NAME... makes the base and applies each change, one folder a name
    os.umask(0o022)
    for chosen in sys.argv[2:]:
        make_base(Path(sys.argv[1]) / chosen)
        MUTATIONS[chosen](Path(sys.argv[1]) / chosen)
