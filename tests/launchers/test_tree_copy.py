"""The copy of the base tree: bytes, modes, times and links; nothing else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.incell.agent.tree_copy import copy_tree

NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b"..")
)
TREES = st.recursive(
    st.one_of(st.binary(max_size=2000), st.sampled_from([0o644, 0o755, 0o400]).map(lambda mode: (mode,))),
    lambda inner: st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)


def build(root: Path, tree: object) -> None:
    if not isinstance(tree, dict):
        return
    for name, node in tree.items():
        path = os.path.join(os.fsencode(root), name)
        if isinstance(node, dict):
            os.mkdir(path)
            build(Path(os.fsdecode(path)), node)
        else:
            with open(path, "wb") as stream:
                stream.write(node if isinstance(node, bytes) else b"mode")
            if isinstance(node, tuple):
                os.chmod(path, node[0])
            os.utime(path, ns=(1_000_000_000_123, 1_700_000_000_123_456_789))


def seen(root: Path) -> dict[str, tuple[int, int, bytes | str]]:
    found: dict[str, tuple[int, int, bytes | str]] = {}
    for where, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(where, name)
            status = os.lstat(path)
            link = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""
            content = Path(path).read_bytes() if stat.S_ISREG(status.st_mode) else link
            changed = 0 if link else status.st_mtime_ns
            found[os.path.relpath(path, root)] = (status.st_mode, changed, content)
    return found


@given(tree=st.dictionaries(NAMES, TREES, max_size=6))
def test_a_copy_is_the_tree(tmp_path_factory: pytest.TempPathFactory, tree: dict[bytes, object]) -> None:
    root = tmp_path_factory.mktemp("copy")
    source, target = root / "source", root / "target"
    source.mkdir()
    target.mkdir()
    build(source, tree)
    before = seen(source)
    assert copy_tree(str(source), str(target)) == len(before)
    assert seen(target) == before == seen(source)


def test_links_are_copied_as_links_and_never_followed(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "out").symlink_to("/etc/hostname")
    (source / "dangling").symlink_to("nowhere")
    (source / "up").symlink_to("..", target_is_directory=True)
    assert copy_tree(str(source), str(target)) == 3
    assert {name: os.readlink(target / name) for name in os.listdir(target)} == {
        "out": "/etc/hostname",
        "dangling": "nowhere",
        "up": "..",
    }


def test_a_special_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    os.mkfifo(tmp_path / "source/pipe")
    with pytest.raises(OSError, match="not a regular file"):
        copy_tree(str(tmp_path / "source"), str(tmp_path / "target"))


def test_what_is_there_already_is_never_overwritten(tmp_path: Path) -> None:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with pytest.raises(FileExistsError):
        copy_tree(str(tmp_path / "source"), str(tmp_path / "target"))
    assert (tmp_path / "target/file").read_text() == "target"
