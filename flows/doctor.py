"""What `assay doctor` looks at: each check is one line, ok, warn or fail, with what was found and what to do.

A check never raises and never shows the value of a key.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cells.errors import AssayError
from cells.evidence.files import write_new
from launchers.engine import Engine

_MIN_FREE_GB = 5
_MIN_MEMORY_MB = 2048


@dataclass(frozen=True)
class Check:
    """One line: `state` is ok, warn or fail; `advice` says what to do when it is not ok."""

    name: str
    state: str
    found: str
    advice: str = ""


def examine(studies: Path, key_names: tuple[str, ...] = (), environment: Mapping[str, str] = os.environ) -> list[Check]:
    """All checks of this machine; `key_names` are the variables that a study asks for."""
    engine, first = _connect()
    checks = [_python(), first]
    if engine is not None:
        checks += [_engine_version(engine), _memory(engine), _remap(engine), _base_image(engine), _clock(engine)]
        checks += [_leftovers(engine)]
        engine.close()
    checks += [_program("bwrap", "bubblewrap", "detectors run in a container instead"), _program("git", "git", "")]
    checks += [_disk(studies), _locks(studies), _port()]
    return checks + [_key(name, environment) for name in key_names]


def worst(checks: list[Check]) -> str:
    """The worst state among the checks."""
    return next((state for state in ("fail", "warn") if any(check.state == state for check in checks)), "ok")


def _connect() -> tuple[Engine | None, Check]:
    try:
        engine = Engine.connect()
    except AssayError as error:
        return None, Check("engine", "fail", "no engine answers", str(error))
    return engine, Check("engine", "ok", f"answers at {engine.host}")


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    ok = (3, 11) <= sys.version_info[:2] < (3, 14)
    return Check("python", "ok" if ok else "warn", found, "" if ok else "tested with 3.11 to 3.13")


def _engine_version(engine: Engine) -> Check:
    facts = engine.description
    found = (
        f"{facts['version']}, {facts['storage_driver']}, cgroup v{facts['cgroup_version']}, runtime {facts['runtime']}"
    )
    old = int(str(facts["version"] or "0").split(".")[0]) < 20
    return Check("engine version", "warn" if old else "ok", found, "20.10 or newer is tested" if old else "")


def _memory(engine: Engine) -> Check:
    found = engine.description["memory_mb"]
    if found is None:
        return Check("memory", "warn", "unknown", "the number of workers cannot be checked against it")
    low = found < _MIN_MEMORY_MB
    return Check("memory", "warn" if low else "ok", f"{found} MiB", "workers will be reduced" if low else "")


def _remap(engine: Engine) -> Check:
    offset = engine.uid_offset
    return Check("user namespaces", "ok", f"remapped by {offset}" if offset else "not remapped")


def _base_image(engine: Engine) -> Check:
    images = engine.client.images.list(filters={"label": "assay.role=base"})
    if images:
        return Check("base image", "ok", ", ".join(tag for image in images for tag in image.tags[:1]))
    return Check("base image", "warn", "not built yet", "the first run builds it (about a minute)")


def _clock(engine: Engine) -> Check:
    stated = str(engine.api.info().get("SystemTime", ""))[:19]
    try:
        drift = abs(time.time() - time.mktime(time.strptime(stated, "%Y-%m-%dT%H:%M:%S")) + time.timezone)
    except ValueError:
        return Check("clock", "warn", "the engine does not say its time")
    return Check(
        "clock",
        "ok" if drift < 5 else "warn",
        f"{drift:.0f} s from the engine's",
        "" if drift < 5 else "set the clocks",
    )


def _leftovers(engine: Engine) -> Check:
    from launchers.reaper import leftovers

    found = leftovers(engine, time.time())
    return Check(
        "leftovers",
        "warn" if found else "ok",
        f"{len(found)} of dead owners",
        "`assay reap` removes them" if found else "",
    )


def _program(command: str, package: str, without: str) -> Check:
    path = shutil.which(command)
    if path:
        return Check(package, "ok", path)
    return Check(package, "warn" if without else "fail", "not found", without or f"install the package {package}")


def _disk(studies: Path) -> Check:
    there = next(path for path in (studies, *studies.parents) if path.exists())
    free = shutil.disk_usage(there).free / (1 << 30)
    low = free < _MIN_FREE_GB
    return Check(
        "disk", "warn" if low else "ok", f"{free:.0f} GiB free for {studies}", "free some space" if low else ""
    )


def _locks(studies: Path) -> Check:
    from filelock import FileLock

    there = next(path for path in (studies, *studies.parents) if path.exists())
    probe = there / f".assay-probe-{os.getpid()}"
    try:
        with FileLock(f"{probe}.lock", timeout=2):
            write_new(probe, b"")
    except (OSError, TimeoutError) as error:
        return Check("studies root", "fail", f"{there}: {error}", "choose a local file system with --studies")
    finally:
        probe.unlink(missing_ok=True)
        Path(f"{probe}.lock").unlink(missing_ok=True)
    return Check("studies root", "ok", f"{there} is writable and can lock")


def _port() -> Check:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
    except OSError as error:
        return Check("loopback port", "fail", str(error), "the local Prefect server needs one")
    return Check("loopback port", "ok", "free")


def _key(name: str, environment: Mapping[str, str]) -> Check:
    there = bool(environment.get(name))
    return Check(
        f"key {name}", "ok" if there else "fail", "set" if there else "not set", "" if there else f"export {name}"
    )
