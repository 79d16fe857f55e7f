"""Jest's and Vitest's console text: `✓ name (12 ms)`, `✕ name`, `○ skipped name`; a duration is no part of a name."""

from __future__ import annotations

import re

from scoring.console.text import lines_of

_LINE = re.compile(
    r"\s*(?P<mark>[✓√✔✕×✖○✎])\s+(?:(?:skipped|todo)\s+)?(?P<name>\S.*?)(?:\s+\(?\d+(?:\.\d+)?\s*m?s\)?)?"
)
_WORDS = dict.fromkeys("✓√✔", "passed") | dict.fromkeys("✕×✖", "failed") | dict.fromkeys("○✎", "skipped")


def read_jest_text(log: bytes) -> dict[str, str]:
    """Results by name; of a name with two results the one that is not `passed`."""
    found: dict[str, str] = {}
    for line in lines_of(log):
        match = _LINE.fullmatch(line)
        if match is not None:
            word = _WORDS[match["mark"]]
            found[match["name"]] = word if found.get(match["name"], "passed") == "passed" else found[match["name"]]
    return found
