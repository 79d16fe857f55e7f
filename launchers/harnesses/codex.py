"""`codex` (npm): `codex exec`, prompt on stdin, its events as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from cells.incell.agent import RECORDS
from launchers.harnesses.protocol import (
    OPENAI_RESPONSES,
    Claims,
    Gather,
    HarnessSettings,
    Launch,
    PlainHarness,
    ReadRecord,
)
from launchers.harnesses.redirected import to_file
from launchers.layers.layer import LAYER_MOUNT

EVENTS = "codex.events.jsonl"
_SESSIONS = "home/.codex/sessions/**"


class CodexSettings(HarnessSettings):
    """[arms.NAME] settings of `codex`."""

    reasoning_effort: Literal["minimal", "low", "medium", "high"] | None = None


class Codex(PlainHarness):
    """Codex, headless."""

    name: ClassVar[str] = "codex"
    layer: ClassVar[str | None] = "codex"
    settings_model: ClassVar[type[HarnessSettings]] = CodexSettings
    needs_model: ClassVar[bool] = True
    speaks: ClassVar[frozenset[str]] = frozenset({OPENAI_RESPONSES})
    needs_forwarder: ClassVar[bool] = True
    keeps_records: ClassVar[bool] = True

    def command(self, launch: Launch) -> tuple[str, ...]:
        """Its own sandbox off, since the cell is one; a provider of our name, since its own wants an account."""
        provider = {
            "name": "cell",
            "base_url": f"{launch.base_url}/v1",
            "env_key": "OPENAI_API_KEY",
            "wire_api": "responses",
        }
        table = ",".join(f"{key}={json.dumps(value)}" for key, value in provider.items())
        words = [f"{LAYER_MOUNT}/bin/codex", "exec", "--json", "--skip-git-repo-check"]
        words += ["--dangerously-bypass-approvals-and-sandbox", "-c", 'model_provider="cell"']
        words += ["-c", f"model_providers.cell={{{table}}}", "-m", str(launch.model)]
        words += ["-c", "analytics.enabled=false"]  # else it waits five seconds at its end for a host out of reach
        if launch.settings["reasoning_effort"] is not None:
            words += ["-c", f'model_reasoning_effort="{launch.settings["reasoning_effort"]}"']
        return to_file(f"{RECORDS}/{EVENTS}", [*words, "-"])

    def gathers(self, settings: Mapping[str, Any]) -> tuple[Gather, ...]:
        """Its events and its session files."""
        return (Gather("records", EVENTS), Gather("records", _SESSIONS))

    def claims(self, read: ReadRecord) -> Claims | None:
        """The tokens of its turns; one of its turns is many requests, so that no claim of turns is made."""
        try:
            events = [json.loads(line) for line in (read(EVENTS) or b"").splitlines()]
            usages = [event["usage"] for event in events if event["type"] == "turn.completed"]
            if not usages:
                return None
            return Claims(
                input_tokens=sum(int(usage["input_tokens"]) for usage in usages),
                output_tokens=sum(int(usage["output_tokens"]) for usage in usages),
            )
        except (ValueError, KeyError, TypeError, AttributeError):  # the cell wrote it: it may be anything
            return None
