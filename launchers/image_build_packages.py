"""What a recipe needs, fetched on the host by its own package clients: wheels with pip, Debian packages with apt-get.

Rules:
1. Names and versions come from the recipe; index and mirror are whatever this machine's clients are set up to use.
2. Wheels are fetched for the Python and the platform of the base image, never for the host's; nothing is built.
3. Debian packages are resolved against the packages that the image has, not against the host's.
4. What was fetched is known by name and digest.
"""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import requests
from docker.errors import DockerException

from cells.errors import InfraFailure
from cells.evidence.digest import digest_file
from cells.sandbox import Owner
from launchers.engine import Engine
from launchers.image_build import REASON, ROLE, ImageBuildFailed
from launchers.labels import labels_of, this_process

BASE_PYTHON = "3.11"
"""Of Debian 12, whose packages the base image is made of; its C library is 2.36."""
_GLIBC_MINOR = 36
# pip takes the tags of wheels from its options, but conditions like `python_version < "3.13"` from the Python that it
# runs on: here they are answered for the image's.
_AS_PYTHON = """\
import sys
import pip._vendor.packaging.markers as markers
real = markers.default_environment
markers.default_environment = lambda: {{**real(), "python_version": "{version}", "python_full_version": "{full}"}}
from pip._internal.cli.main import main
sys.exit(main())
"""
_FETCH_TIMEOUT_S = 900
_STATUS = "/var/lib/dpkg/status"
_STATUS_CAP = 64 << 20


@dataclass(frozen=True)
class Fetched:
    """Files for one recipe, by name, with their digests."""

    folder: Path
    digests: dict[str, str]


def fetch_wheels(requirements: Sequence[str], architecture: str, folder: Path, python: str = BASE_PYTHON) -> Fetched:
    """Wheels of the requirements and of all that they need, and pip's own. ImageBuildFailed with pip's words."""
    folder.mkdir()
    options = wheel_options(architecture, python)
    pip = pip_command()
    if pip[1:] == ["-m", "pip"]:
        pip = [pip[0], "-c", _AS_PYTHON.format(version=python, full=f"{python}.0")]
    command = [*pip, "download", "--dest", str(folder), *options, "pip", *requirements]
    run_client(command, "pip could not fetch the recipe's wheels; see that this machine reaches its package index")
    return Fetched(folder, digests_of(folder, "*.whl"))


def wheel_options(architecture: str, python: str = BASE_PYTHON) -> list[str]:
    """pip's options that ask for wheels which run on the base image."""
    options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", "--no-input"]
    options += [f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")]
    return options + [f"--platform={platform}" for platform in wheel_platforms(architecture)]


def wheel_platforms(architecture: str) -> list[str]:
    """Platform tags that run on the base image, best first (PEP 600; `architecture` as Debian says it)."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(architecture, architecture)
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC_MINOR, 4, -1)]
    return [*tags, f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}", "any"]


def pip_command() -> list[str]:
    """How to run this machine's pip. InfraFailure when there is none."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if found is None:
        raise InfraFailure(
            REASON, "a recipe asks for Python packages, and this machine has no pip; install python3-pip"
        )
    return [found]


def fetch_debs(engine: Engine, image: str, packages: Sequence[str], folder: Path) -> Fetched:
    """The packages that `image` lacks, with what they need. ImageBuildFailed with apt-get's words."""
    folder.mkdir()
    status = installed_status(engine, image)
    missing = sorted(set(packages) - installed_packages(status))
    if not missing:
        return Fetched(folder, {})
    if shutil.which("apt-get") is None:
        raise InfraFailure(
            REASON, f"the recipe asks for {', '.join(missing)}, which the base image lacks; no apt-get here"
        )
    (folder / "status").write_text(status, "utf-8")
    (folder / "archives" / "partial").mkdir(parents=True)
    settings = {
        "Dir::State::status": folder / "status",
        "Dir::State::extended_states": folder / "extended_states",
        "Dir::Cache": folder,
        "Dir::Cache::archives": folder / "archives",
        "Debug::NoLocking": "1",
        "APT::Install-Recommends": "0",
        "APT::Sandbox::User": "root",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    run_client(
        ["apt-get", *options, "--yes", "--download-only", "install", *missing],
        f"apt-get could not fetch {', '.join(missing)}; as root: apt-get update",
    )
    return Fetched(folder / "archives", digests_of(folder / "archives", "*.deb"))


def installed_status(engine: Engine, image: str) -> str:
    """The state file of dpkg in an image; nothing of the image is run."""
    try:
        owner = Owner(study="", cell="", attempt="", role=ROLE, deadline_s=_FETCH_TIMEOUT_S)
        labels = labels_of(owner, this_process(), time.time())
        created = engine.api.create_container(image, command=["true"], network_disabled=True, labels=labels)
        try:
            chunks, _ = engine.api.get_archive(created["Id"], _STATUS)
            content = _capped(chunks, _STATUS_CAP)
        finally:
            engine.api.remove_container(created["Id"], force=True)
    except (DockerException, requests.RequestException) as error:
        raise InfraFailure(REASON, f"cannot read which Debian packages {image} has: {error}") from error
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        member = archive.next()
        stream = None if member is None or not member.isreg() else archive.extractfile(member)
        if stream is None:
            raise InfraFailure(REASON, f"{image} has no plain file {_STATUS}")
        return stream.read().decode("utf-8", "replace")


def installed_packages(status: str) -> set[str]:
    """Names of the packages that a dpkg state file says are installed."""
    names = set()
    for stanza in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            names.add(fields["Package"])
    return names


def _capped(chunks: object, cap: int) -> bytes:
    content = bytearray()
    try:
        for chunk in chunks:  # type: ignore[attr-defined]
            content += chunk
            if len(content) > cap:
                raise InfraFailure(REASON, f"{_STATUS} in the image is larger than {cap} bytes")
    finally:
        chunks.close()  # type: ignore[attr-defined]
    return bytes(content)


def run_client(command: list[str], advice: str, folder: Path | None = None) -> None:
    """Run a package client of this machine, in `folder`. ImageBuildFailed with its words when it fails."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_FETCH_TIMEOUT_S,
            env=environment,
            cwd=folder,
        )
    except subprocess.TimeoutExpired as error:
        raise ImageBuildFailed(f"{advice} (no end within {_FETCH_TIMEOUT_S} s)", error.stdout or b"") from error
    if done.returncode != 0:
        raise ImageBuildFailed(advice, done.stdout)


def digests_of(folder: Path, pattern: str) -> dict[str, str]:
    """Digests of the files in a folder, by name."""
    return {path.name: digest_file(path) for path in sorted(folder.glob(pattern))}
