"""A real engine, and live cells of the specimen task on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.specimen import SpecimenCells


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The machine's engine; a test that asks for it is marked `engine`."""
    connected = Engine.connect()
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def specimens(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> SpecimenCells:
    """Live cells of the specimen task."""
    root: Path = tmp_path_factory.mktemp("specimens")
    return SpecimenCells.on(engine, root, DockerSandboxes(engine, root))
