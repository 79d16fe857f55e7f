"""The runtime fingerprint: on what an attempt ran. Everything but the task's image is the same for all cells of a run.

25-formats: engine and runtime versions, image and layer digests as built, kernel, architecture, host class, Assay's
version and the digest of what is installed beside it.
"""

from __future__ import annotations

import compileall
import os
import platform
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

from cells import incell
from cells.evidence.digest import digest_file, digest_json
from launchers.engine import Engine

_ENGINE_KEYS = (
    "name",
    "version",
    "api_version",
    "runtime",
    "runtime_version",
    "containerd_version",
    "cgroup_version",
    "storage_driver",
    "security_options",
    "uid_offset",
)


def runtime_facts(engine: Engine) -> dict[str, Any]:
    """The facts of this machine, engine and installation; `programs` is the digest of what we mount into containers."""
    described = engine.description
    return {
        "engine": {key: described.get(key) for key in _ENGINE_KEYS},
        "kernel": described.get("kernel"),
        "architecture": described.get("architecture"),
        "host_class": host_class(),
        "assay": version("assay"),
        "python": platform.python_version(),
        "installed_sha256": installed_digest(),
        "programs": programs_digest(),
    }


def host_class() -> dict[str, Any]:
    """What decides how fast a cell runs: processor model, cores, memory in GiB."""
    return {"processor": _processor(), "cores": os.cpu_count(), "memory_gb": _memory_gb()}


def installed_digest() -> str:
    """Digest over name and version of every installed distribution."""
    found = {str(item.metadata["Name"]).lower(): item.version for item in distributions()}
    return digest_json(found)


def compile_programs() -> None:
    """Byte code of the programs that run in containers, so that each start does not compile them anew.

    It is used where the image's Python is of this one's version; where it cannot be written, the starts are slower.
    """
    compileall.compile_dir(incell.__path__[0], quiet=2, workers=1)


def programs_digest() -> str:
    """Digest over the programs that run in containers (cells/incell)."""
    root = Path(incell.__path__[0])
    return digest_json({str(path.relative_to(root)): digest_file(path) for path in sorted(root.rglob("*.py"))})


def _processor() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def _memory_gb() -> int | None:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return round(int(line.split()[1]) / (1 << 20))
    return None
