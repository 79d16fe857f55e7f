"""Path patterns of the contract, and names that are safe on disk.

Pattern language: `<word>` one or more characters of one segment; `*` any characters of one segment; `**` the rest,
one segment at least; `NNNN` four digits; `NNN` three digits; `_N.` a positive number. A leading `<place>/` (see
`PLACES`) stands for the directory of the scope and is not matched.

Names: segments joined by `/`, relative, no empty, `.` or `..` segment, printable ASCII without backslash; every other
byte stands as `%XX`, so that a name is text in JSON and the same bytes on every file system.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

from cells.errors import BoundaryViolation

MAX_SEGMENT = 240
MAX_DEPTH = 64
PLACES = (
    "<branch_bundle_root>/<branch_point_id>",
    "<branch_attempt_dir>",
    "<assist_home>/sessions/<session_id>",
    "<assist_home>",
    "<session_dir>",
    "<task_cwd>",
    "<task telemetry sibling>",
    "<run_dir>",
    "<cell_dir>",
    "<child>",
    "<host>",
)
"""Directories that a leading placeholder stands for, longest first."""

_TOKEN = re.compile(r"\*\*|\*|<[^<>]+>|NNNN|NNN|(?<=_)N(?=\.)")
_REGEX = {"**": r".+", "*": r"[^/]*", "NNNN": r"\d{4}", "NNN": r"\d{3}", "N": r"[1-9]\d*"}
_SAFE = frozenset(range(0x20, 0x7F)) - frozenset(b"%\\/")
_CUT_MARK = "~"
"""Stands in a name only where a long segment was cut, so that no short name can be chosen to collide with a cut one."""


@dataclass(frozen=True)
class PathPattern:
    """A compiled pattern; `weight` orders matches: the most specific wins."""

    tail: str
    expression: re.Pattern[str]
    weight: tuple[int, int]

    @classmethod
    def of(cls, pattern: str) -> PathPattern:
        """Compile a pattern as printed in the contract."""
        tail = relative_to_place(pattern)
        parts, literal, position = [], 0, 0
        for token in _TOKEN.finditer(tail):
            parts += [re.escape(tail[position : token.start()]), _REGEX.get(token[0], r"[^/]+")]
            literal += token.start() - position
            position = token.end()
        literal += len(tail) - position
        parts.append(re.escape(tail[position:]))
        return cls(tail, re.compile("".join(parts)), (-tail.count("**"), literal))

    def matches(self, name: str) -> bool:
        """Whether the whole name, relative to the place, fits."""
        return self.expression.fullmatch(name) is not None


def relative_to_place(pattern: str) -> str:
    """The pattern without its leading place."""
    for place in PLACES:
        if pattern.startswith(place + "/"):
            return pattern[len(place) + 1 :]
    return pattern


def check_name(name: str) -> str:
    """The name when it is a safe relative one; `BoundaryViolation` otherwise."""
    segments = name.split("/")
    if len(segments) > MAX_DEPTH or not all(_is_safe_segment(segment) for segment in segments):
        raise BoundaryViolation(
            f"artifact {name!r}: not a safe name; allowed are relative paths of printable ASCII segments "
            f"(other bytes as %XX), at most {MAX_SEGMENT} characters each and {MAX_DEPTH} deep, without . and .."
        )
    return name


def safe_name(raw: bytes) -> str:
    """A safe name for a relative path found in a container: odd bytes as %XX, long segments cut, marked with their
    digest.

    `BoundaryViolation` when it is absolute, empty, too deep, or has a `.` or `..` segment.
    """
    return check_name("/".join(_encode_segment(segment) for segment in raw.split(b"/")))


@lru_cache(maxsize=4096)
def _is_safe_segment(segment: str) -> bool:
    if segment in ("", ".", "..") or len(segment) > MAX_SEGMENT:
        return False
    plain = re.sub(r"%[0-9A-F]{2}", "", segment)
    return all(ord(character) in _SAFE for character in plain)


def _encode_segment(segment: bytes) -> str:
    plain = _SAFE - {ord(_CUT_MARK)}
    text = "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in segment)
    if len(text) <= MAX_SEGMENT:
        return text
    mark = hashlib.sha256(segment).hexdigest()[:40]
    return f"{re.sub(r'%.?$', '', text[: MAX_SEGMENT - 45])}{_CUT_MARK}{mark}"
