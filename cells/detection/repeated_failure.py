"""Repeated failure: the same test fails the same way, although something was tried in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cells.detection.failures import failure_signature
from cells.detection.judgement import Evidence, FixedDetector, Hit, Row, events, short_text


@dataclass(frozen=True)
class RepeatedFailure(FixedDetector):
    """A hit when a failure of the newest turn stood in `times` turns or more of the last `window`, it included."""

    name: ClassVar[str] = "repeated_failure"
    fields: ClassVar[frozenset[str]] = frozenset({"tool_name", "result_summary", "is_error", "exit_status"})
    facts: ClassVar[frozenset[str]] = frozenset({"failure", "times"})
    template: ClassVar[str] = (
        "The same failure has come back {times} times: {failure}. What you changed in between did not touch its "
        "cause; look at the failing code again before the next change."
    )
    times: int = 3
    window: int = 20

    def judge(self, rows: Sequence[Row], turn: int) -> Hit | None:
        """See the class."""
        calls = [row for row in events(rows, "tool_call") if row["turn"] > turn - self.window]
        seen: dict[tuple[str, ...], set[int]] = {}
        for row in calls:
            if (signature := failure_signature(row)) is not None:
                seen.setdefault(signature, set()).add(row["turn"])
        for signature, turns in seen.items():
            if turn in turns and len(turns) >= self.times:
                evidence = tuple(Evidence(one, "result_summary") for one in sorted(turns))
                return Hit(evidence, {"failure": short_text(signature[0]), "times": len(turns)})
        return None
