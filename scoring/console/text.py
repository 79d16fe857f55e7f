"""Console output as text: decoded once, as a whole, nothing lost; colours taken off."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


def lines_of(log: bytes) -> list[str]:
    """The lines of a log; bytes that are no UTF-8 stand as escapes, trailing blanks and carriage returns are gone."""
    text = _ESCAPE.sub("", log.decode("utf-8", "backslashreplace"))
    return [line.rstrip() for line in text.split("\n")]
