"""Which harnesses there are, by name, and the check of their settings at plan time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from cells.errors import UsageError
from launchers.harnesses.claude_code import ClaudeCode
from launchers.harnesses.codex import Codex
from launchers.harnesses.command import Command
from launchers.harnesses.mini_swe_agent import MiniSweAgent
from launchers.harnesses.nop import Nop
from launchers.harnesses.oracle import Oracle
from launchers.harnesses.protocol import Harness
from launchers.harnesses.reference import Reference

_HARNESSES: tuple[Harness, ...] = (Reference(), Command(), MiniSweAgent(), ClaudeCode(), Codex(), Oracle(), Nop())
HARNESSES: Mapping[str, Harness] = {harness.name: harness for harness in _HARNESSES}


class SettingsError(UsageError):
    """Settings of a harness that it does not take; `key` is the first wrong one, below `settings`."""

    def __init__(self, harness: str, key: str, message: str) -> None:
        super().__init__(f'settings of harness "{harness}": {key}: {message}' if key else message)
        self.key = key


def harness(name: str) -> Harness:
    """The harness of this name. UsageError lists what there is."""
    if name not in HARNESSES:
        raise UsageError(f"asked for harness {name!r}; there are {', '.join(sorted(HARNESSES))}")
    return HARNESSES[name]


def check_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with their defaults, as they stand in the cell's identity. SettingsError names the wrong key."""
    model = harness(name).settings_model
    try:
        return model.model_validate(dict(settings)).model_dump(mode="json")
    except ValidationError as error:
        # A misspelt key is both unknown and missing: the unknown one is what the person wrote.
        first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        key = ".".join(str(part) for part in first["loc"])
        allowed = ", ".join(sorted(model.model_fields)) or "no settings"
        raise SettingsError(name, key, f"{first['msg']}; allowed are {allowed}") from error
