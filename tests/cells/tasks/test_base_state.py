"""The base state from an archive: walked, never extracted; its git tree id is git's own."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells.tasks.base_state import BaseEntry, entries_of_archive, entries_of_directory, git_tree_id
from cells.tasks.tree import TreeCaps, TreeProblem


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def test_files_links_and_modes_are_read(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "repo.tar",
        (member("./", tarfile.DIRTYPE), b""),
        (member("./a"), b"1"),
        (member("bin/run", mode=0o755), b"2"),
        (member("l", tarfile.SYMTYPE, "bin/run"), b""),
    )
    assert list(entries_of_archive(path)) == [
        BaseEntry(b"a", 0o100644, b"1"),
        BaseEntry(b"bin/run", 0o100755, b"2"),
        BaseEntry(b"l", 0o120000, b"bin/run"),
    ]


HOSTILE = {
    "upward": (member("../x"), "upward"),
    "absolute": (member("/etc/x"), "absolute"),
    "inside upward": (member("a/../../x"), "upward"),
    "hard link": (member("h", tarfile.LNKTYPE, "a"), "only plain files"),
    "device": (member("d", tarfile.CHRTYPE), "only plain files"),
    "pipe": (member("p", tarfile.FIFOTYPE), "only plain files"),
    "link out": (member("l", tarfile.SYMTYPE, "../../etc/passwd"), "leaves the tree"),
    "absolute link": (member("l", tarfile.SYMTYPE, "/etc/passwd"), "stay inside"),
    "history": (member(".GIT/config"), "plain tree"),
    "twice": (member("./a"), "twice"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_an_archive_may_not_hold_is_refused(tmp_path: Path, name: str) -> None:
    info, expected = HOSTILE[name]
    path = archive(tmp_path / "repo.tar", (member("a"), b"1"), (info, b""))
    with pytest.raises(TreeProblem, match=expected):
        list(entries_of_archive(path))


def test_an_archive_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "repo.tar").write_bytes(b"no archive at all" * 100)
    with pytest.raises(TreeProblem, match="cannot be read"):
        list(entries_of_archive(tmp_path / "repo.tar"))


def test_an_archive_that_is_cut(tmp_path: Path) -> None:
    path = archive(tmp_path / "repo.tar", (member("a"), b"1" * 4096))
    path.write_bytes(path.read_bytes()[:2048])
    with pytest.raises(TreeProblem, match="cannot be read"):
        list(entries_of_archive(path))


def test_an_archive_over_its_cap(tmp_path: Path) -> None:
    path = archive(tmp_path / "repo.tar", (member("a"), b"1" * 100))
    with pytest.raises(TreeProblem, match="more than is allowed"):
        list(entries_of_archive(path, TreeCaps(total_bytes=99)))


NAMES = st.text(alphabet="abA-.é ", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
ENTRIES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.tuples(st.sampled_from([0o100644, 0o100755]), st.binary(max_size=20)),
    min_size=1,
    max_size=6,
).filter(lambda files: not any(other.startswith(name + "/") for name in files for other in files))


@settings(max_examples=25, deadline=None)
@given(ENTRIES)
def test_the_tree_id_is_the_one_that_git_computes(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, tuple[int, bytes]]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for name, (mode, content) in files.items():
        path = root / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.chmod(path, mode & 0o777)
    ours = git_tree_id(entries_of_directory(root / "repo"))
    assert ours == _git_tree(root)


def _git_tree(root: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    environment |= {"GIT_DIR": str(root / "git"), "GIT_WORK_TREE": str(root / "repo")}
    for command in (["init", "-q"], ["add", "-A", "-f", "."], ["write-tree"]):
        done = subprocess.run(["git", *command], cwd=root / "repo", env=environment, capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_a_file_that_is_also_a_directory_is_refused() -> None:
    entries = [BaseEntry(b"a", 0o100644, b""), BaseEntry(b"a/b", 0o100644, b"")]
    with pytest.raises(TreeProblem):
        git_tree_id(entries)
