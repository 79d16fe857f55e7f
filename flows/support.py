"""The environment report of `assay support`.

Rule (saved-files, `support`): it reads no study content and names no key and no host path; studies are only counted.
"""

from __future__ import annotations

import platform
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

from cells.errors import AssayError
from flows.doctor import examine
from flows.runtime import host_class, installed_digest, programs_digest
from launchers.engine import Engine

VERSION = 1
_PATHLESS = ("engine", "python", "engine version", "memory", "user namespaces", "base image", "clock", "leftovers")


def support_document(studies: Path) -> dict[str, Any]:
    """Versions, host class, engine, states of the checks, number of studies."""
    checks = examine(studies)
    return {
        "v": VERSION,
        "assay": version("assay"),
        "python": platform.python_version(),
        "system": {"kernel": platform.release(), "machine": platform.machine(), **host_class()},
        "installed": {str(item.metadata["Name"]): item.version for item in distributions()},
        "installed_sha256": installed_digest(),
        "programs_sha256": programs_digest(),
        "engine": _engine(),
        "checks": [
            {"name": check.name, "state": check.state, "found": check.found if check.name in _PATHLESS[1:] else None}
            for check in checks
        ],
        "studies": sum(1 for _ in studies.glob("*/ledger.jsonl")) if studies.is_dir() else 0,
    }


def _engine() -> dict[str, Any] | None:
    try:
        engine = Engine.connect()
    except AssayError:
        return None
    try:
        return {key: value for key, value in engine.description.items() if key not in ("id",)}
    finally:
        engine.close()
