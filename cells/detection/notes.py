"""Notes: the study's fixed text with a detector's facts in it, model text quoted and capped.

Rules (25-formats, "Detectors"):
1. The template is fixed before the run; it may use the detector's facts by name and nothing else.
2. A fact that is text stands in quotation marks; a number stands as it is.
3. A note is at most `NOTE_CAP` characters.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from cells.detection.judgement import Detector, Fact, SettingsError, short_text

NOTE_CAP = 1000


def template_of(detector: Detector, settings: Mapping[str, Any]) -> str:
    """The study's template, or the detector's own; `SettingsError` when it is too long or uses an unknown name."""
    template = settings.get("template", detector.template)
    if not isinstance(template, str) or not 0 < len(template) <= NOTE_CAP // 2:
        raise SettingsError(
            f"{detector.name}: template is {template!r}; expected text of 1 to {NOTE_CAP // 2} characters"
        )
    for name in _names(detector, template):
        if name not in detector.facts:
            raise SettingsError(
                f"{detector.name}: template uses {{{name}}}; allowed are {', '.join(sorted(detector.facts))}"
            )
    return template


def render(template: str, facts: Mapping[str, Fact]) -> str:
    """The text of a note."""
    shown = {name: fact if isinstance(fact, int) else f'"{short_text(fact)}"' for name, fact in facts.items()}
    text = string.Formatter().vformat(template, (), _Missing(shown))
    return text if len(text) <= NOTE_CAP else text[: NOTE_CAP - 1] + "…"


class _Missing(dict[str, Any]):
    """A fact that a judgement did not give shows as unknown."""

    def __missing__(self, key: str) -> str:
        return "unknown"


def _names(detector: Detector, template: str) -> list[str]:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise SettingsError(f"{detector.name}: template cannot be read ({error})") from error
    if any(name is not None and (not name.isidentifier() or spec or conversion) for _, name, spec, conversion in parts):
        raise SettingsError(f"{detector.name}: template has a field that is not a plain name in braces")
    return [name for _, name, _, _ in parts if name is not None]
