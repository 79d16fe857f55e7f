"""Debian packages that set-up needs: what is missing on this machine, and its installation by root.

Rules:
1. apt is touched only when something is missing.
2. Without root nothing is installed; the caller says what must be there.
3. A package brings its program, not its service: no service is started or enabled by an installation of ours
   beyond what Debian's own package does under systemd.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cells.errors import EnvironmentFault

_APT_TIMEOUT_S = 900
_LOCK_OPTION = "DPkg::Lock::Timeout=300"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Program:
    """A program, the Debian package that brings it, and what does not work without it."""

    name: str
    package: str
    purpose: str


MMDEBSTRAP = Program("mmdebstrap", "mmdebstrap", "building the base image")
DOCKERD = Program("dockerd", "docker.io", "a container engine")
# Not a program: wanted where Python itself can make no environment.
PYTHON_VENV = Program("python3 -m venv", "python3-venv", "the Python environment")
BUBBLEWRAP = Program("bwrap", "bubblewrap", "detectors, which run without file system and network")
GIT = Program("git", "git", "freezing tasks and importing real ones")
ZSTD = Program("zstd", "zstd", "reading an archived tree by hand")
STRACE = Program("strace", "strace", "fault tests at single system calls")
CHROMIUM = Program("chromium", "chromium", "looking at the report as a person does")

FOR_RUN = (BUBBLEWRAP, GIT, ZSTD)
FOR_TEST = (*FOR_RUN, STRACE, CHROMIUM)


def find_program(name: str) -> str | None:
    """Where the program is, also when the caller's PATH leaves out the system's own directories."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def missing(programs: Iterable[Program]) -> tuple[Program, ...]:
    """Those of the programs that this machine does not have."""
    return tuple(program for program in programs if find_program(program.name) is None)


def install(packages: Iterable[str], log: Path) -> None:
    """Install Debian packages as root, without their recommendations; apt's words go to `log`.

    Raises EnvironmentFault with the end of the log where apt fails.
    """
    _apt(["update"], log)
    _apt(["install", "--yes", "--no-install-recommends", *packages], log)


def _apt(arguments: list[str], log: Path) -> None:
    command = ["apt-get", "-o", _LOCK_OPTION, *arguments]
    # RUNLEVEL: an init script is not run by an installation on a machine without systemd.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "LC_ALL": "C.UTF-8"}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=_APT_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentFault(f"asked for {' '.join(command)}; {error}\n{tail(log)}") from error
    if done.returncode != 0:
        raise EnvironmentFault(f"{' '.join(command)} ended with {done.returncode}; {log} ends:\n{tail(log)}")


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log of ours, empty where there is none."""
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:]) if log.exists() else ""
