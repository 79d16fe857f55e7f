"""Fixtures for tests on a real engine: one task image for all of them, made once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.images import build_task_image
from tests.scoring.attempts import make_task
from tests.scoring.calc_task import FILES, TOML, Bench


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine of this machine."""
    connected = Engine.connect()
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def sandboxes(engine: Engine) -> DockerSandboxes:
    """Hardened containers on it."""
    return DockerSandboxes(engine)


@pytest.fixture(scope="session")
def calc(engine: Engine, sandboxes: DockerSandboxes, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The task of `calc_task`."""
    task = make_task(tmp_path_factory.mktemp("calc"), TOML, FILES)
    return Bench.of(task, build_task_image(task, engine), sandboxes)
