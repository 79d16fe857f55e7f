"""No write: many turns in a row without a change to a source file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cells.detection.judgement import Evidence, FixedDetector, Hit, Row, events
from cells.detection.shell_writes import writes_files

_WRITE_TOOL = re.compile(
    r"write|edit|patch|replace|insert|create|multiedit|notebookedit|str_replace_based_edit_tool", re.I
)


@dataclass(frozen=True)
class NoWrite(FixedDetector):
    """A hit when `turns` turns in a row, the newest included, changed no source file; again after as many more."""

    name: ClassVar[str] = "no_write"
    fields: ClassVar[frozenset[str]] = frozenset({"tool_name", "arguments", "is_error"})
    facts: ClassVar[frozenset[str]] = frozenset({"turns"})
    template: ClassVar[str] = (
        "You have not changed a source file for {turns} turns. If you know enough, make the change now; "
        "if not, say what is missing."
    )
    turns: int = 8

    def judge(self, rows: Sequence[Row], turn: int) -> Hit | None:
        """See the class."""
        if turn + 1 < self.turns:
            return None
        writes = [row["turn"] for row in events(rows, "tool_call") if row["turn"] <= turn and _is_write(row)]
        quiet = turn - max(writes, default=-1)
        if quiet < self.turns or quiet % self.turns:
            return None
        return Hit(tuple(Evidence(one, "tool_name") for one in range(turn - quiet + 1, turn + 1)), {"turns": quiet})


def _is_write(row: Row) -> bool:
    if row.get("is_error") is True:
        return False
    return bool(_WRITE_TOOL.search(str(row.get("tool_name"))) or writes_files(str(row.get("arguments"))))
