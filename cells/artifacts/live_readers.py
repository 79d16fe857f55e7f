"""The contracts of the live readers that Assay has: which fields of the trace each detector may read.

Rules:
1. A detector reads the live trace through the current turn, the fields that it names and the row's envelope; nothing
   else.
2. A study narrows with the setting `fields`; naming a field that the detector does not name is `ContractError`.
3. The settings `fields` and `template` belong to the reader and to the note; the rest is the detector's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from cells.artifacts.access import ReaderContract
from cells.artifacts.model import Role
from cells.design.study_model import DetectorSection
from cells.detection.judgement import ENVELOPE, Detector, SettingsError
from cells.detection.notes import template_of
from cells.detection.registry import make
from cells.detection.schedule import ArmDetector
from cells.errors import UsageError

TRACE = "live/trace.jsonl"
_KEYS = ("action", "warmup", "cadence", "budget", "settings")


def detector_reader(detector: Detector, settings: Mapping[str, Any] | None = None) -> ReaderContract:
    """The reader contract of a detector, narrowed by the study's `fields` where it has any."""
    base = ReaderContract(detector.name, Role.DETECTOR, fields={TRACE: detector.fields | ENVELOPE})
    chosen = (settings or {}).get("fields")
    if chosen is None:
        return base
    if not isinstance(chosen, (list, tuple)) or not all(isinstance(one, str) for one in chosen):
        raise SettingsError(f"{detector.name}: fields is {chosen!r}; expected a list of field names")
    return base.narrowed(fields={TRACE: ENVELOPE | set(chosen)})


def arm_detectors(content: Mapping[str, Any]) -> dict[str, ArmDetector]:
    """The detectors of `ArmContent.detectors` by name, each checked; `UsageError` names what is wrong."""
    if not isinstance(content, Mapping):
        raise UsageError(f"detectors: expected a table of detectors, found {type(content).__name__}")
    return {name: _checked(name, _section(name, one)) for name, one in sorted(content.items())}


def check_detectors(content: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical form of an arm's detector sections (as `DetectorSection` or its JSON); `UsageError` otherwise."""
    arm = arm_detectors(content)
    return {name: {key: getattr(one, key) for key in _KEYS} for name, one in arm.items()}


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the detector itself takes."""
    return {key: value for key, value in settings.items() if key not in ("template", "fields")}


def _checked(name: str, section: DetectorSection) -> ArmDetector:
    try:
        arm = ArmDetector(name, **{key: getattr(section, key) for key in _KEYS})
        detector = make(name, own_settings(arm.settings))
        template_of(detector, arm.settings)
        detector_reader(detector, arm.settings)
    except SettingsError as error:
        raise UsageError(f"detectors.{error}") from error
    return arm


def _section(name: str, section: Any) -> DetectorSection:
    if isinstance(section, DetectorSection):
        return section
    try:
        return DetectorSection.model_validate(section)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"detectors.{name}.{key}: {first['msg']}") from error
