"""Fault campaigns: real files on a memory file system where there is one, so that a campaign measures us and not a
disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory for many small files; kill -9 loses no page cache, so memory serves as well as a disk."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="assay-faults-", dir=memory if memory.is_dir() else tmp_path))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is marked `fault`."""
    for item in items:
        if "/faults/" in str(item.path):
            item.add_marker(pytest.mark.fault)
