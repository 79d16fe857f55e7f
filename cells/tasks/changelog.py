"""A project's own changelog, read for the entries of the releases between two versions.

Rules:
1. An entry begins at a line that starts with a version (after list and heading marks, or the word release or version)
   and ends at the next such line that is not indented deeper.
2. Files named for it are looked at first, then the readme and the documentation; the first that has an entry is used.
3. No entry is no entry: nothing is made up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_START = re.compile(
    r"^(?P<indent>\s*)(?:[-*#=+]+\s+)?\W{0,4}(?:(?:release|version)\s+)?v?(?P<version>\d+(?:\.\d+)+)(?![\w.])",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r"^\s*([=\-~^\"'#*+.])\1{2,}\s*$")
_NAMED = re.compile(r"(^|/)(change(s|log)?|history|news|releases?)[^/]*$", re.IGNORECASE)
_TEXT = re.compile(r"(^|/)readme[^/]*$|^docs?/[^/]*\.(rst|md|txt)$", re.IGNORECASE)
_MAX_CHARACTERS = 8000


def entries_between(files: Mapping[str, str], old: str, new: str) -> str | None:
    """The entries of every release after `old` up to `new`, in the project's own order; None when there are none."""
    named = sorted((path for path in files if _NAMED.search(path)), key=lambda path: (path.count("/"), path))
    others = sorted((path for path in files if _TEXT.search(path)), key=lambda path: (path.count("/"), path))
    for path in [*named, *others]:
        found = [text for version, text in entries(files[path]) if _order(old) < _order(version) <= _order(new)]
        if found:
            return "\n\n".join(found)[:_MAX_CHARACTERS]
    return None


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Version and text of each entry of a changelog, in its order."""
    lines = text.splitlines()
    starts = [(number, found) for number, line in enumerate(lines) if (found := _START.match(line))]
    for index, (number, found) in enumerate(starts):
        deeper = len(found["indent"])
        later = (at for at, other in starts[index + 1 :] if len(other["indent"]) <= deeper)
        body = _without_rules(lines[number : next(later, len(lines))])
        if body:
            yield found["version"], body


def _without_rules(lines: list[str]) -> str:
    """An entry's text: underlines of headings and rules between entries are not part of it."""
    return "\n".join(line.rstrip() for line in lines if not _UNDERLINE.match(line)).strip()


def _order(version: str) -> tuple[int, ...]:
    numbers = re.findall(r"\d+", version)
    return tuple(int(number) for number in numbers)
