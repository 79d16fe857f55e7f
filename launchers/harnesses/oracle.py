"""`oracle`: the control that applies the gold patch. It enters by stdin after the start, in a cell without a model."""

from __future__ import annotations

from typing import ClassVar

from cells.errors import UsageError
from launchers.harnesses.protocol import Launch, PlainHarness


class Oracle(PlainHarness):
    """What a perfect agent would leave."""

    name: ClassVar[str] = "oracle"
    control: ClassVar[str | None] = "oracle"

    def command(self, launch: Launch) -> tuple[str, ...]:
        """Apply what comes on stdin to the work directory."""
        return ("git", "apply", "--whitespace=nowarn", "-")

    def stdin(self, launch: Launch) -> bytes:
        """The gold patch. UsageError in a cell that was not given one: it is no control then."""
        if launch.gold_patch is None:
            raise UsageError("asked for the oracle control; the cell was given no gold patch")
        return launch.gold_patch
