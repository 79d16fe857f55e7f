"""The detectors by name, made from the settings of a study; and the digest of their code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cells.detection.context_pressure import ContextPressure
from cells.detection.duplicate_call import DuplicateCall
from cells.detection.judgement import Detector, SettingsError, settled
from cells.detection.model_hurdle import ModelHurdle
from cells.detection.no_write import NoWrite
from cells.detection.repeated_failure import RepeatedFailure

DETECTORS: dict[str, type[Any]] = {
    one.name: one for one in (DuplicateCall, RepeatedFailure, NoWrite, ContextPressure, ModelHurdle)
}


def make(name: str, settings: Mapping[str, Any]) -> Detector:
    """A detector; `SettingsError` for an unknown name or setting. The setting `template` belongs to notes."""
    if name not in DETECTORS:
        raise SettingsError(f"asked for detector {name!r}; there are {', '.join(sorted(DETECTORS))}")
    detector: Detector = settled(DETECTORS[name], {key: settings[key] for key in settings if key != "template"})
    return detector


@cache
def code_digest() -> str:
    """`sha256:<hex>` over every module of the package, by name and content: which detectors decided."""
    state = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        content = path.read_bytes()
        state.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return "sha256:" + state.hexdigest()
