"""A Python of a layer's own: interpreter, standard library, shared libraries and loader of this image, and wheels.

Rules:
1. Nothing of it lies outside the layer: it runs in an image without Python, of another version or another C library.
2. Wheels are those given, whole and without what they ask for: the lock file decided. Nothing is built.
3. Byte code is compiled here, once, and checked against nothing: a cell never writes any, and starts fast.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig

_LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
_MISSING = re.compile(r"(\S+) => not found")
_FOUND = re.compile(r"=> (/\S+) \(")
# pip unpacks into the folder for temporary files before it moves; /tmp is small.
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TMPDIR": "/assay/build"}


class FillFailed(Exception):
    """The layer cannot be filled; the log has the output."""


def install(version: str, given: str, layer: str, log: bytearray) -> None:
    """The interpreter and the wheels in the folder, below `layer`; what its Debian packages bring is copied too."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != here:
        raise FillFailed(f"the wheels were fetched for Python {version}, the image has {here}")
    _install_debs(os.path.join(given, "debs"), log)
    _copy_interpreter(layer, here)
    packages = os.path.join(layer, "lib", "python3", "dist-packages")  # where Debian's site module looks
    _install_wheels(os.path.join(given, "wheels"), packages, log)
    _copy_libraries(layer)
    compiling = [sys.executable, "-B", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    # Some packages carry templates that are no Python; what does not compile is compiled by nobody.
    _run([*compiling, os.path.join(layer, "lib", f"python{here}"), packages], log, allowed=(0, 1))


def _install_debs(folder: str, log: bytearray) -> None:
    if os.path.isdir(folder):
        archives = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        _run(["dpkg", "--install", "--force-unsafe-io", *archives], log)


def _copy_interpreter(layer: str, version: str) -> None:
    os.makedirs(os.path.join(layer, "bin"))
    shutil.copy(os.path.realpath(sys.executable), os.path.join(layer, "bin", "python3"))
    target = os.path.join(layer, "lib", f"python{version}")
    ignored = shutil.ignore_patterns("__pycache__", "config-*", "idlelib", "ensurepip", "EXTERNALLY-MANAGED")
    shutil.copytree(sysconfig.get_path("stdlib"), target, ignore=ignored, ignore_dangling_symlinks=True)


def _install_wheels(wheels: str, packages: str, log: bytearray) -> None:
    names = sorted(os.listdir(wheels))
    # pip itself runs from its own wheel and is not installed.
    pip = next(os.path.join(wheels, name, "pip") for name in names if name.startswith("pip-"))
    options = ["--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--no-compile"]
    options += ["--root-user-action=ignore", "--only-binary=:all:", "--target", packages]
    given = [os.path.join(wheels, name) for name in names if not name.startswith("pip-")]
    _run([sys.executable, "-B", pip, "install", *options, *given], log)


def _copy_libraries(layer: str) -> None:
    """Every shared library that something in the layer is linked against and that lies outside of it, and the
    loader."""
    loader = _LOADERS.get(platform.machine())
    if loader is None:
        raise FillFailed(f"no loader is known for {platform.machine()}; there are {', '.join(sorted(_LOADERS))}")
    folder = os.path.join(layer, "lib", "system")
    os.makedirs(folder)
    shutil.copy(os.path.realpath(loader), os.path.join(folder, "loader"))
    for path in sorted(_linked(loader, layer)):
        shutil.copy(os.path.realpath(path), os.path.join(folder, os.path.basename(path)))


def _linked(loader: str, layer: str) -> set[str]:
    found, missing = set(), set()
    for path in [os.path.join(layer, "bin", "python3"), *_shared_objects(layer)]:
        listing = subprocess.run([loader, "--list", path], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        found |= {name for name in _FOUND.findall(listing.stdout) if not name.startswith(f"{layer}/")}
        missing |= {f"{name} ({os.path.relpath(path, layer)})" for name in _MISSING.findall(listing.stdout)}
    if missing:
        raise FillFailed(f"linked against what is not here: {', '.join(sorted(missing))}")
    return found


def _shared_objects(layer: str) -> list[str]:
    return [
        os.path.join(folder, name)
        for folder, _, names in os.walk(layer)
        for name in names
        if name.endswith(".so") or ".so." in name
    ]


def _run(command: list[str], log: bytearray, allowed: tuple[int, ...] = (0,)) -> None:
    log += b"$ " + " ".join(command).encode("utf-8", "backslashreplace")[:2000] + b"\n"
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=_ENVIRONMENT)
    log += done.stdout + done.stderr
    if done.returncode not in allowed:
        raise FillFailed(f"{os.path.basename(command[0])} ended with {done.returncode}")
