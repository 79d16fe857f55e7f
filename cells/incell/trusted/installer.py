"""Installs a recipe into a container of the base image: Debian packages and wheels that the host fetched, no network.

Rules:
1. Wheels only, by exact version, from the folder given; nothing is built and nothing is asked for.
2. Byte code is compiled here, once, and checked against nothing: a cell never writes any, and starts fast.
3. What was needed for the installation leaves no trace in the image.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig

from .frames import write_frame

FOLDER = "/assay/build"
LOG_CAP = 4 << 20
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN": "true",
}


class InstallFailed(Exception):
    """A step of the installation failed; its output is in the log."""


def main() -> None:
    """Install what lies in FOLDER and answer with one frame: `built` with the versions, or `failed`. Its body: the
    log."""
    output, log = os.dup(1), bytearray()
    try:
        with open(os.path.join(FOLDER, "request.json"), encoding="utf-8") as file:
            answer = install(json.load(file), log)
    except (InstallFailed, OSError, subprocess.SubprocessError) as error:
        log += f"{type(error).__name__}: {error}\n".encode("utf-8", "backslashreplace")
        write_frame(output, {"type": "failed"}, bytes(log[-LOG_CAP:]))
        sys.exit(1)
    write_frame(output, {"type": "built", **answer}, bytes(log[-LOG_CAP:]))


def install(request: dict[str, object], log: bytearray) -> dict[str, object]:
    """Debian packages, then wheels, then byte code; the versions that are installed now."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if request["python"] != here:
        raise InstallFailed(f"the wheels were fetched for Python {request['python']}, the image has {here}")
    _install_debs(log)
    packages = _install_wheels(list(request["pip"]), log)  # type: ignore[call-overload]
    shutil.rmtree(FOLDER)
    return {"packages": packages}


def _install_debs(log: bytearray) -> None:
    folder = os.path.join(FOLDER, "debs")
    archives = sorted(os.path.join(folder, name) for name in os.listdir(folder)) if os.path.isdir(folder) else []
    if archives:
        _run(["dpkg", "--install", "--force-unsafe-io", "--force-confnew", *archives], log)


def _install_wheels(requirements: list[str], log: bytearray) -> dict[str, str]:
    if not requirements:
        return {}
    folder = os.path.join(FOLDER, "wheels")
    # pip itself runs from its own wheel and is not installed.
    pip = next(os.path.join(folder, name, "pip") for name in os.listdir(folder) if name.startswith("pip-"))
    options = ["--no-index", "--find-links", folder, "--no-cache-dir", "--disable-pip-version-check", "--no-compile"]
    options += ["--break-system-packages", "--root-user-action=ignore", "--only-binary=:all:"]
    _run([sys.executable, "-B", pip, "install", *options, *requirements], log)
    compiling = [sys.executable, "-B", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    _run([*compiling, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")], log)
    listing = _run([sys.executable, "-B", pip, "list", "--format=json", "--disable-pip-version-check"], bytearray())
    return {row["name"]: row["version"] for row in json.loads(listing)}


def _run(command: list[str], log: bytearray) -> bytes:
    log += b"$ " + " ".join(command).encode("utf-8", "backslashreplace")[:2000] + b"\n"
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=_ENVIRONMENT)
    log += done.stdout + done.stderr
    if done.returncode != 0:
        raise InstallFailed(f"{os.path.basename(command[0])} ended with {done.returncode}")
    return done.stdout
