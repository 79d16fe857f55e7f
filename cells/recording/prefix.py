"""Prefixes of the trace: what a live decision may use, with the byte length and digest that let anybody check it
afterwards.

Rules: a prefix ends at the end of a row; the prefix through turn N holds no row of a later turn of main, no note that
was decided after it,
and no end of the session.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import PREFIX, digest_bytes


@dataclass(frozen=True)
class Prefix:
    """The rows of a prefix, its length in bytes and its digest."""

    rows: tuple[dict[str, Any], ...]
    length: int
    digest: str


def prefix_at(trace: bytes, length: int) -> Prefix:
    """The prefix of `length` bytes. `EvidenceError` when the trace is shorter or the prefix ends inside a row."""
    if not 0 <= length <= len(trace) or (length and trace[length - 1 : length] != b"\n"):
        raise EvidenceError(f"trace: no row ends at byte {length} of {len(trace)}")
    content = trace[:length]
    return Prefix(tuple(_row(line) for line in content.splitlines()), length, digest_bytes(content))


def prefix_through(trace: bytes, turn: int) -> Prefix:
    """The longest prefix that a decision about `turn` could have used: up to the first row that only a later moment can
    have made."""
    length = 0
    for line in trace.splitlines(keepends=True):
        if not line.endswith(b"\n") or _is_later(_row(line), turn):
            break
        length += len(line)
    return prefix_at(trace, length)


def holds_nothing_after(prefix: Prefix, turn: int) -> bool:
    """Whether no row of the prefix is of a later turn."""
    return not any(_is_later(row, turn) for row in prefix.rows)


def _is_later(row: dict[str, Any], turn: int) -> bool:
    if row["event"] == "session_end":
        return True
    found = row["turn"] if row["lane"] == "main" else None
    return found is not None and (found > turn or (row["event"] == "injection" and found == turn))


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise EvidenceError(f"trace: a row is not JSON ({error})") from error
    if not isinstance(row, dict) or not {"event", "turn", "lane"} <= row.keys():
        raise EvidenceError("trace: a row lacks its envelope")
    return row


@dataclass
class GrowingPrefix:
    """Length and digest of a trace while it grows, without keeping its bytes."""

    length: int = 0
    _state: Any = field(default_factory=hashlib.sha256)

    def add(self, content: bytes) -> None:
        self.length += len(content)
        self._state.update(content)

    @property
    def digest(self) -> str:
        return PREFIX + str(self._state.copy().hexdigest())
