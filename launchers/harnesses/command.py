"""`command`: any program is a harness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from launchers.harnesses.protocol import (
    ANTHROPIC_MESSAGES,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
    Gather,
    HarnessSettings,
    Launch,
    PlainHarness,
)

_Word = Annotated[str, Field(pattern="^[^\\x00]*$")]


class CommandSettings(HarnessSettings):
    """[arms.NAME] settings of `command`."""

    command: Annotated[tuple[_Word, ...], Field(min_length=1, strict=False)]
    """argv; the first word is looked up on the image's PATH."""
    stdin: Literal["prompt", "none"] = "prompt"
    gather: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Patterns of files in the work directory that are kept as its own record."""
    env: dict[str, _Word] = Field(default_factory=dict)
    """Further environment; never a secret: it is part of the cell's identity and stands in the records."""


class Command(PlainHarness):
    """A program of the user's."""

    name: ClassVar[str] = "command"
    settings_model: ClassVar[type[HarnessSettings]] = CommandSettings
    speaks: ClassVar[frozenset[str]] = frozenset({OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC_MESSAGES})
    needs_forwarder: ClassVar[bool] = True

    def command(self, launch: Launch) -> tuple[str, ...]:
        """The user's words."""
        return tuple(launch.settings["command"])

    def environment(self, launch: Launch) -> Mapping[str, str]:
        """The user's variables."""
        return dict(launch.settings["env"])

    def stdin(self, launch: Launch) -> bytes:
        """The prompt, unless the settings say none."""
        return launch.prompt if launch.settings["stdin"] == "prompt" else b""

    def gathers(self, settings: Mapping[str, Any]) -> tuple[Gather, ...]:
        """The user's patterns."""
        return tuple(Gather("workdir", pattern) for pattern in settings["gather"])
