"""Context pressure: the prompt fills most of the input limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cells.detection.judgement import Evidence, FixedDetector, Hit, Row, events


@dataclass(frozen=True)
class ContextPressure(FixedDetector):
    """A hit when the newest turn's prompt took `threshold` of the context or more, and the turn before did not.

    No hit where the provider told no prompt tokens, or no context size is known: unknown is not zero.
    """

    name: ClassVar[str] = "context_pressure"
    fields: ClassVar[frozenset[str]] = frozenset({"prompt_tokens", "context_size"})
    facts: ClassVar[frozenset[str]] = frozenset({"percent", "prompt_tokens", "context_size"})
    template: ClassVar[str] = (
        "Your context is {percent} % full ({prompt_tokens} of {context_size} tokens). Finish what you are doing with "
        "short commands and short output."
    )
    threshold: float = 0.8

    def judge(self, rows: Sequence[Row], turn: int) -> Hit | None:
        """See the class."""
        size = _context_size(rows)
        used = {row["turn"]: row.get("prompt_tokens") for row in events(rows, "turn")}
        now, before = used.get(turn), used.get(turn - 1)
        if size is None or not isinstance(now, int) or now < self.threshold * size:
            return None
        if isinstance(before, int) and before >= self.threshold * size:
            return None
        facts = {"percent": round(100 * now / size), "prompt_tokens": now, "context_size": size}
        return Hit((Evidence(turn, "prompt_tokens"),), facts)


def _context_size(rows: Sequence[Row]) -> int | None:
    sizes = [row.get("context_size") for row in rows if row.get("event") == "session_start"]
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    return known[-1] if known else None
