"""The commands of a newcomer, as a shell runs them: exit status, and which words go where."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOWHERE = {**os.environ, "DOCKER_HOST": "unix:///nowhere/engine.sock"}


def run(*command: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("name", ["engine", "environment", "lock", "prepare", "run", "test", "../.ci/run"])
def test_a_command_may_be_executed(name: str) -> None:
    assert os.access(ROOT / "infra" / name, os.X_OK)


@pytest.mark.parametrize("name", ["lock", "prepare", "run", "test", "../.ci/run"])
def test_a_shell_script_has_no_syntax_error(name: str) -> None:
    assert run("bash", "-n", f"infra/{name}").stderr == ""


def test_without_an_engine_a_study_is_refused_before_it_starts_and_stdout_stays_empty() -> None:
    done = run("./infra/run", "--json", variables=NOWHERE)
    assert (done.returncode, done.stdout) == (3, "")
    assert "unix:///nowhere/engine.sock" in done.stderr and "unset DOCKER_HOST" in done.stderr


def test_without_an_engine_the_rest_is_prepared_all_the_same() -> None:
    done = run("./infra/prepare", "--dev", "--engine-optional", variables=NOWHERE)
    assert (done.returncode, done.stdout) == (0, "no-engine\n")
    assert "environment" in done.stderr


def test_the_engine_command_refuses_with_exit_3() -> None:
    assert run("./infra/engine", variables=NOWHERE).returncode == 3


@pytest.mark.engine
def test_with_an_engine_set_up_is_ready_and_says_so() -> None:
    done = run("./infra/prepare", "--dev", "--engine-optional")
    assert (done.returncode, done.stdout) == (0, "engine\n")
    assert "used as it is" in done.stderr


def test_continuous_integration_runs_the_same_command_as_a_person() -> None:
    assert "infra/test" in (ROOT / ".ci" / "run").read_text("utf-8")
