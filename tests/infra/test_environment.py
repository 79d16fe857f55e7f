"""The environment is what the lock says: when it counts as current, and who may make it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells.errors import EnvironmentFault
from infra.machine.environment import Environment, ensure_environment, require_allowed_python, wanted_stamp


def new_checkout(directory: Path) -> Path:
    """The files of a checkout that decide its environment."""
    (directory / "infra").mkdir()
    for name in ("infra/requirements.lock", "infra/requirements-dev.lock", "pyproject.toml"):
        (directory / name).write_text(f"# {name}\n")
    return directory


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an environment whose Python must never be run."""
    python = new_checkout(tmp_path) / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return tmp_path


@pytest.fixture(scope="module")
def real_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a real environment, from an empty lock, in which the project itself could not be installed."""
    directory = new_checkout(tmp_path_factory.mktemp("checkout"))
    with pytest.raises(EnvironmentFault):
        ensure_environment(Environment(directory), directory / "pip.log")
    assert Environment(directory).python.exists()
    return directory


def swapped_wheel(directory: Path) -> str:
    """The requirement of a file that is not what anybody locked; it lies here, no index is asked."""
    wheel = directory / "swapped-1.0-py3-none-any.whl"
    wheel.write_bytes(b"other bytes")
    return f"swapped @ {wheel.as_uri()}"


def stamped(environment: Environment) -> Environment:
    environment.stamp.write_text(wanted_stamp(environment))
    return environment


@pytest.mark.parametrize("changed", ["infra/requirements.lock", "pyproject.toml"])
def test_a_changed_byte_of_lock_or_project_makes_another_stamp(checkout: Path, changed: str) -> None:
    before = wanted_stamp(Environment(checkout))
    (checkout / changed).write_text("# changed\n")
    assert wanted_stamp(Environment(checkout)) != before


def test_an_environment_does_not_move_with_its_checkout(checkout: Path) -> None:
    before = wanted_stamp(Environment(checkout))
    moved = checkout.rename(checkout.with_name("moved"))
    assert wanted_stamp(Environment(moved)) != before


def test_a_stamped_environment_is_not_touched(checkout: Path) -> None:
    assert ensure_environment(stamped(Environment(checkout)), checkout / "pip.log") == "as locked"
    assert not (checkout / "pip.log").exists()


def test_the_environment_of_the_tests_serves_a_run(checkout: Path) -> None:
    stamped(Environment(checkout, dev=True))
    assert ensure_environment(Environment(checkout), checkout / "pip.log") == "as locked"


def test_the_environment_of_a_run_does_not_serve_the_tests(real_checkout: Path) -> None:
    stamped(Environment(real_checkout))
    with pytest.raises(EnvironmentFault):
        ensure_environment(Environment(real_checkout, dev=True), real_checkout / "pip.log")
    Environment(real_checkout).stamp.unlink()


def test_a_package_that_is_not_what_was_locked_is_refused_and_leaves_no_stamp(real_checkout: Path) -> None:
    """A file that was swapped where packages come from: its hash is not the locked one."""
    Environment(real_checkout).lock.write_text(f"{swapped_wheel(real_checkout)} --hash=sha256:{'0' * 64}\n")
    with pytest.raises(EnvironmentFault, match="DO NOT MATCH THE HASHES"):
        ensure_environment(Environment(real_checkout), real_checkout / "pip.log")
    assert not Environment(real_checkout).stamp.exists()


def test_a_package_without_a_hash_is_refused(real_checkout: Path) -> None:
    Environment(real_checkout).lock.write_text(f"{swapped_wheel(real_checkout)}\n")
    with pytest.raises(EnvironmentFault, match="are missing from some requirements"):
        ensure_environment(Environment(real_checkout), real_checkout / "pip.log")


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_the_pythons_of_the_project_are_allowed(version: tuple[int, int]) -> None:
    require_allowed_python(version)


@pytest.mark.parametrize("version", [(2, 7), (3, 10), (3, 14)])
def test_another_python_is_refused_with_what_is_allowed(version: tuple[int, int]) -> None:
    with pytest.raises(EnvironmentFault, match=f"Python {version[0]}.{version[1]}; allowed: 3.11"):
        require_allowed_python(version)
