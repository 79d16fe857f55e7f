"""`claude-code` (npm): its headless form, prompt on stdin, one JSON document as its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from cells.incell.agent import RECORDS
from launchers.harnesses.protocol import (
    ANTHROPIC_MESSAGES,
    Claims,
    Gather,
    HarnessSettings,
    Launch,
    PlainHarness,
    ReadRecord,
)
from launchers.harnesses.redirected import to_file
from launchers.layers.layer import LAYER_MOUNT

RESULT = "claude-code.result.json"
_SESSIONS = "home/.claude/projects/**"


class ClaudeCodeSettings(HarnessSettings):
    """[arms.NAME] settings of `claude-code`."""

    append_system_prompt: Annotated[str, Field(max_length=65_536, pattern=r"^[^\x00]*$")] = ""
    max_turns: Annotated[int, Field(gt=0)] | None = None
    """Its own limit of turns; the cell's limits hold in any case."""


class ClaudeCode(PlainHarness):
    """Claude Code, headless."""

    name: ClassVar[str] = "claude-code"
    layer: ClassVar[str | None] = "claude-code"
    settings_model: ClassVar[type[HarnessSettings]] = ClaudeCodeSettings
    needs_model: ClassVar[bool] = True
    speaks: ClassVar[frozenset[str]] = frozenset({ANTHROPIC_MESSAGES})
    needs_forwarder: ClassVar[bool] = True
    keeps_records: ClassVar[bool] = True

    def command(self, launch: Launch) -> tuple[str, ...]:
        """Print mode with every tool allowed; the cell is the sandbox. Its result goes to a file of its record."""
        words = [f"{LAYER_MOUNT}/bin/claude", "-p", "--dangerously-skip-permissions", "--output-format", "json"]
        words += ["--model", str(launch.model)]
        if launch.settings["append_system_prompt"]:
            words += ["--append-system-prompt", launch.settings["append_system_prompt"]]
        if launch.settings["max_turns"] is not None:
            words += ["--max-turns", str(launch.settings["max_turns"])]
        return to_file(f"{RECORDS}/{RESULT}", words)

    def environment(self, launch: Launch) -> Mapping[str, str]:
        """The one model of the cell for all of its roles; nothing asked of anybody else."""
        return {
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ANTHROPIC_SMALL_FAST_MODEL": str(launch.model),
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": str(launch.model),
        }

    def gathers(self, settings: Mapping[str, Any]) -> tuple[Gather, ...]:
        """Its result and its session files."""
        return (Gather("records", RESULT), Gather("records", _SESSIONS))

    def claims(self, read: ReadRecord) -> Claims | None:
        """The tokens of its result. Its `num_turns` counts messages, not requests: no claim is made from it."""
        try:
            usage = json.loads(read(RESULT) or b"")["usage"]
            kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            return Claims(
                input_tokens=sum(int(usage.get(kind) or 0) for kind in kinds), output_tokens=int(usage["output_tokens"])
            )
        except (ValueError, KeyError, TypeError, AttributeError):  # the cell wrote it: it may be anything
            return None
