"""A disk that is really full, really read-only, or really another one: mounted for the test, so these need root."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cells.errors import AssayError, EnvironmentFault, EvidenceError
from cells.evidence.campaign import open_store, visible_damage
from cells.evidence.lifecycle.marks import archive
from cells.evidence.lifecycle.purge import purge
from cells.evidence.manifest import verify_bundle
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, empty_study, specimen_study
from cells.evidence.units import reconcile
from cells.evidence.verify import verify_path

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="needs root and mount")


@pytest.fixture
def disk(place: Path) -> Iterator[Path]:
    """A memory disk of 600 KB."""
    mounted = place / "disk"
    mounted.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", mounted], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounts are not allowed here")
    yield mounted
    subprocess.run(["umount", "-l", mounted], check=True)


def test_a_full_disk_stops_publishing_with_nothing_half_and_goes_on_when_there_is_room(disk: Path) -> None:
    empty_study(disk, "s")
    done = 0
    with pytest.raises((OSError, AssayError)):
        while True:
            store = open_store(disk)
            with store.writing():
                add_attempt(store, Specimen(task=f"t{done}"))
            done += 1
    assert done > 0
    assert visible_damage(disk) == []
    assert len(open_store(disk).accepted()) == done
    subprocess.run(["mount", "-o", "remount,size=6m", disk], check=True)
    store = open_store(disk)
    with store.writing():
        reconcile(store)
        add_attempt(store, Specimen(task="room"))
    assert verify_path(disk).problems == []


def test_a_read_only_root_is_refused_with_the_reason_and_can_still_be_verified(disk: Path) -> None:
    specimen_study(disk, "s", cells=1)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    try:
        assert verify_path(disk).ok
        assert len(open_store(disk).accepted()) == 1
        with pytest.raises((OSError, AssayError)) as refused:
            archive(open_store(disk))
        assert getattr(refused.value, "errno", errno.EROFS) == errno.EROFS
        with pytest.raises(EnvironmentFault, match="Read-only"):
            StudiesRoot.ensure(disk / "new")
    finally:
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert verify_path(disk).ok


@pytest.mark.requirement(49)
@pytest.mark.requirement(17)
def test_a_mount_is_named_and_never_crossed(place: Path, disk: Path) -> None:
    (disk / "precious").write_bytes(b"keep")
    store = specimen_study(place / "studies", "s", cells=1)
    archive(store)
    bundle = store.bundle(next(iter(store.accepted().values())))
    bundle.chmod(0o750)
    inside = bundle / "inside"
    inside.mkdir()
    subprocess.run(["mount", "--bind", disk, inside], check=True)
    try:
        assert "mount" in {problem.kind for problem in verify_bundle(bundle)}
        with store.writing(), pytest.raises(EvidenceError, match="another device"):
            purge(store, store.id, store.id)
        assert (disk / "precious").read_bytes() == b"keep"
    finally:
        subprocess.run(["umount", inside], check=True)
    inside.rmdir()
    bundle.chmod(0o550)
    assert verify_path(store.path).ok
