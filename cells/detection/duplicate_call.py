"""Duplicate call: the same tool with the same arguments gave the same output, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cells.detection.judgement import Evidence, FixedDetector, Hit, Row, events, short_text


@dataclass(frozen=True)
class DuplicateCall(FixedDetector):
    """A hit when a call of the newest turn stands `times` times or more within the last `window` turns."""

    name: ClassVar[str] = "duplicate_call"
    fields: ClassVar[frozenset[str]] = frozenset({"tool_name", "args_sha256", "output_sha256"})
    facts: ClassVar[frozenset[str]] = frozenset({"tool_name", "times"})
    template: ClassVar[str] = (
        "You have called {tool_name} {times} times with the same arguments and got the same output each time. "
        "Calling it again will not tell you anything new; try something else."
    )
    times: int = 3
    window: int = 10

    def judge(self, rows: Sequence[Row], turn: int) -> Hit | None:
        """See the class."""
        calls = [row for row in events(rows, "tool_call") if row["turn"] > turn - self.window]
        newest = [row for row in calls if row["turn"] == turn]
        for row in newest:
            same = [other for other in calls if _key(other) == _key(row)]
            if len(same) >= self.times:
                evidence = tuple(Evidence(other["turn"], "args_sha256") for other in same)
                return Hit(evidence, {"tool_name": short_text(row.get("tool_name")), "times": len(same)})
        return None


def _key(row: Row) -> tuple[object, object, object]:
    return row.get("tool_name"), row.get("args_sha256"), row.get("output_sha256")
