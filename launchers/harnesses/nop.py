"""`nop`: the control that does nothing."""

from __future__ import annotations

from typing import ClassVar

from launchers.harnesses.protocol import Launch, PlainHarness


class Nop(PlainHarness):
    """What an agent that does nothing leaves: the base state."""

    name: ClassVar[str] = "nop"
    control: ClassVar[str | None] = "nop"

    def command(self, launch: Launch) -> tuple[str, ...]:
        """Succeed."""
        return ("true",)

    def stdin(self, launch: Launch) -> bytes:
        """Nothing."""
        return b""
