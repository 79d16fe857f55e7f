"""References stay beneath their root whatever lies there; a studies root is made once, on a file system that can be
trusted."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cells.errors import BoundaryViolation, EnvironmentFault
from cells.evidence import fs_real
from cells.evidence.fs_real import REAL, RealTree
from cells.evidence.locks import file_system_of, refuse_network
from cells.evidence.roots import Reference, Roots, StudiesRoot

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /mnt/share rw - nfs4 server:/share rw
31 22 0:41 / /mnt/with\\040space rw - fuse.sshfs host:/ rw
32 22 0:42 / /mnt/fast rw - tmpfs tmpfs rw
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a/file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to("..")
    (root / "inner").symlink_to("a")
    return root


ESCAPES = ["../secret", "a/../../secret", "link", "up/secret", "inner/file", "/etc/hostname", "a//file", "", "."]


@pytest.mark.requirement(16)
@pytest.mark.parametrize("path", ESCAPES, ids=lambda path: path.replace("/", "_") or "empty")
def test_a_reference_never_leads_out_of_its_root(tree: Path, path: str) -> None:
    with pytest.raises(BoundaryViolation):
        Roots({"study": tree}).read(Reference("study", path))


def test_a_reference_opens_what_lies_beneath(tree: Path) -> None:
    assert Roots({"study": tree}).read(Reference.of({"root": "study", "path": "a/file"})) == b"inside"


@pytest.mark.parametrize(
    "value", [None, {}, {"root": "study"}, {"root": "study", "path": "/x"}, {"root": "s", "path": "a", "x": 1}]
)
def test_what_is_no_reference_is_refused(value: object) -> None:
    with pytest.raises(BoundaryViolation):
        Reference.of(value)


@pytest.mark.requirement(16)
def test_an_unlisted_root_is_refused(tree: Path) -> None:
    with pytest.raises(BoundaryViolation, match="known roots: study"):
        Roots({"study": tree}).read(Reference("host", "etc/passwd"))


@pytest.mark.requirement(16)
@pytest.mark.parametrize("path", ["../secret", "link", "up/secret", "inner/file", "a/../../secret"])
def test_without_openat2_the_walk_by_components_refuses_the_same(
    tree: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fs_real, "open_beneath", lambda root, name, flags: None)
    opened = RealTree(tree)
    try:
        with pytest.raises(OSError) as refused:
            opened.open(path)
        assert refused.value.errno in (errno.ELOOP, errno.EXDEV, errno.ENOTDIR)
        REAL.close(opened.open("a/file"))
    finally:
        opened.close()


def test_a_root_keeps_its_identity(tmp_path: Path) -> None:
    one = StudiesRoot.ensure(tmp_path / "studies")
    assert StudiesRoot.ensure(tmp_path / "studies") == one
    assert not one.has_moved


def test_a_network_file_system_is_refused_with_what_to_do() -> None:
    refuse_network(Path("/mnt/fast/studies"), lambda: MOUNTS)
    refuse_network(Path("/srv"), lambda: MOUNTS)
    for path in ("/mnt/share/studies", "/mnt/with space/x"):
        with pytest.raises(EnvironmentFault, match="local file system"):
            refuse_network(Path(path), lambda: MOUNTS)


def test_the_longest_mount_point_decides() -> None:
    assert file_system_of(Path("/mnt/shared"), MOUNTS) == "ext4"
    assert file_system_of(Path("/mnt/share"), MOUNTS) == "nfs4"
    assert file_system_of(Path("/x"), "") == "unknown"
