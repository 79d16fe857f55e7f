"""The Python environment in `.venv/`: made from the lock file, with the project itself installed in place.

Rules:
1. What is installed is what the lock names, hash by hash; nothing is resolved here.
2. A stamp over everything that decides the environment makes the second time cheap; it is written last.
3. An environment that is already there is brought up to date, not thrown away; it is remade only where its Python
   does not run or is not one that the project allows.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cells.errors import EnvironmentFault
from infra.machine import packages
from infra.machine.steps import Steps

ALLOWED_PYTHON = ((3, 11), (3, 14))
_STEP_TIMEOUT_S = 1800


@dataclass(frozen=True)
class Environment:
    """The environment of one checkout; `dev` adds what only the tests need."""

    root: Path
    dev: bool = False

    @property
    def directory(self) -> Path:
        """Where it lives."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    @property
    def lock(self) -> Path:
        """The lock file that it is made from."""
        return self.root / "infra" / ("requirements-dev.lock" if self.dev else "requirements.lock")

    @property
    def stamp(self) -> Path:
        """The file that says for what the environment was made."""
        return self.directory / ("assay-dev.stamp" if self.dev else "assay.stamp")


def ensure_environment(environment: Environment, log: Path) -> str:
    """Bring `.venv/` to what the lock says, and say in a few words what was done; pip's words go to `log`.

    Raises EnvironmentFault where this Python is not allowed, cannot make environments, or an installation fails.
    """
    if _is_current(environment):
        return "as locked"
    require_allowed_python(sys.version_info[:2])
    new = _make_where_unusable(environment, log)
    _install_locked(environment, log)
    _install_project(environment, log)
    environment.stamp.write_text(wanted_stamp(environment), "ascii")
    return "made from the lock" if new else "brought to the lock"


def require_allowed_python(version: tuple[int, int]) -> None:
    """Raise EnvironmentFault where the project does not run on this Python."""
    lowest, beyond = ALLOWED_PYTHON
    if not lowest <= version < beyond:
        raise EnvironmentFault(
            f"this is Python {version[0]}.{version[1]}; allowed: {lowest[0]}.{lowest[1]} up to, without, "
            f"{beyond[0]}.{beyond[1]}; put such a python3 first on PATH"
        )


def wanted_stamp(environment: Environment) -> str:
    """The digest of all that decides the environment: lock, project file, place of the checkout, Python version."""
    digest = hashlib.sha256()
    for part in (
        environment.lock.read_bytes(),
        (environment.root / "pyproject.toml").read_bytes(),
        str(environment.root).encode("utf-8"),
        sys.version.encode("utf-8"),
    ):
        digest.update(b"%d\n" % len(part) + part)
    return digest.hexdigest()


def _is_current(environment: Environment) -> bool:
    # What the tests need includes what a run needs.
    candidates = (environment, Environment(environment.root, dev=True))
    return environment.python.exists() and any(_has_stamp(candidate) for candidate in candidates)


def _has_stamp(environment: Environment) -> bool:
    return environment.stamp.exists() and environment.stamp.read_text("ascii") == wanted_stamp(environment)


def _make_where_unusable(environment: Environment, log: Path) -> bool:
    if environment.python.exists() and _runs_allowed_python(environment.python):
        return False
    if environment.directory.exists():
        shutil.rmtree(environment.directory)
    _make(environment, log)
    return True


def _runs_allowed_python(python: Path) -> bool:
    lowest, beyond = ALLOWED_PYTHON
    check = f"import sys, pip; sys.exit(not {lowest} <= sys.version_info[:2] < {beyond})"
    try:
        done = subprocess.run([str(python), "-c", check], capture_output=True, timeout=60, check=False)
    except OSError:
        return False
    return done.returncode == 0


def _make(environment: Environment, log: Path) -> None:
    venv = [sys.executable, "-m", "venv"]
    if _can("ensurepip"):
        _run([*venv, str(environment.directory)], log)
    elif _can("pip"):
        # Debian without python3-venv: the system's pip serves the environment from outside.
        _run([*venv, "--without-pip", str(environment.directory)], log)
        _run([sys.executable, "-m", "pip", "--python", str(environment.python), "install", "pip"], log)
    else:
        raise EnvironmentFault(
            f"{sys.executable} can make no environment: it has neither ensurepip nor pip. "
            "As root: apt-get install python3-venv; or put another Python 3.11 to 3.13 first on PATH"
        )


def can_make_environments() -> bool:
    """Whether this Python can make an environment with pip in it, by itself or with the system's pip."""
    return _can("ensurepip") or _can("pip")


def _can(module: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", f"import venv, {module}"], capture_output=True, timeout=60, check=False
    )
    return done.returncode == 0


def _install_locked(environment: Environment, log: Path) -> None:
    requirements = ["--require-hashes", "--no-deps", "--requirement", str(environment.lock)]
    _run([*_pip(environment), "install", *requirements], log)


def _install_project(environment: Environment, log: Path) -> None:
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--force-reinstall"]
    _run([*_pip(environment), "install", *options, "--editable", str(environment.root)], log)


def _pip(environment: Environment) -> list[str]:
    return [str(environment.python), "-m", "pip", "--disable-pip-version-check", "--no-input"]


def _run(command: list[str], log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    # A caller's PYTHONPATH or user site must not stand in for what the lock names.
    variables = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET")
    }
    variables |= {"PYTHONNOUSERSITE": "1", "PIP_USER": "0"}
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                timeout=_STEP_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFault(
                f"no end after {error.timeout:.0f} s: {' '.join(command)}\n{packages.tail(log)}"
            ) from error
    if done.returncode != 0:
        raise EnvironmentFault(f"ended with {done.returncode}: {' '.join(command)}; {log} ends:\n{packages.tail(log)}")


def main(arguments: Sequence[str], root: Path) -> int:
    """`infra/environment`: exit 0 with `.venv/` as locked, 3 without."""
    parser = argparse.ArgumentParser(prog="infra/environment", description="Make .venv/ from the lock file.")
    parser.add_argument("--dev", action="store_true", help="with what the tests need")
    options = parser.parse_args(arguments)
    steps = Steps()
    try:
        with steps.step("environment") as step:
            step.outcome = ensure_environment(Environment(root, options.dev), root / ".cache" / "pip.log")
    except EnvironmentFault as fault:
        print(f"environment: {fault}", file=sys.stderr)
        return fault.exit_code
    return 0
