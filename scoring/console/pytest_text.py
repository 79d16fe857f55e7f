"""pytest's console text, also under tox: the short test summary (`-rA`), or verbose lines where there is none.

Rules:
1. Where short summaries stand, the last one counts and nothing before it: output of tests can look like a summary.
2. An id is everything up to ` - ` outside of its brackets; counters and `SKIPPED [n] file:line` are no tests.
3. A test that is named twice has the worse result.
"""

from __future__ import annotations

import re

from scoring.console.text import lines_of

_WORDS = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
}
_WORSE = ("passed", "xpassed", "xfailed", "skipped", "failed", "error")
_SUMMARY = re.compile(r"=+ short test summary info =+")
_LINE = re.compile(rf"(?P<word>{'|'.join(_WORDS)}) (?P<rest>\S.*)")
_VERBOSE = re.compile(rf"(?P<id>\S+?\.\w+::.+?) (?P<word>{'|'.join(_WORDS)})(?: \(.*\))?(?:\s+\[\s*\d+%\])?")


def read_pytest_text(log: bytes) -> dict[str, str]:
    """Results by node id."""
    lines = lines_of(log)
    summaries = [number for number, line in enumerate(lines) if _SUMMARY.fullmatch(line)]
    found: dict[str, str] = {}
    for line in lines[summaries[-1] + 1 :] if summaries else lines:
        result = _summary_line(line) or (None if summaries else _verbose_line(line))
        if result is not None:
            test, word = result
            found[test] = max(found.get(test, word), word, key=_WORSE.index)
    return found


def _summary_line(line: str) -> tuple[str, str] | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    test = _id(match["rest"])
    return (test, _WORDS[match["word"]]) if "::" in test or test.endswith(".py") else None


def _verbose_line(line: str) -> tuple[str, str] | None:
    match = _VERBOSE.fullmatch(line)
    return (match["id"], _WORDS[match["word"]]) if match else None


def _id(rest: str) -> str:
    """The id at the beginning of a summary line, the message behind ` - ` taken off."""
    depth = 0
    for position, character in enumerate(rest):
        if character == "[":
            depth += 1
        elif character == "]" and depth:
            depth -= 1
        elif depth == 0 and rest.startswith(" - ", position):
            return rest[:position]
    if depth == 0 or " - " not in rest:
        return rest
    end = rest.find("] - ")  # brackets that do not balance: the first end that can be one
    return rest[: end + 1] if end >= 0 else rest.partition(" - ")[0]
