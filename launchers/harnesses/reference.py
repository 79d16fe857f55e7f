"""`reference`: our own harness, a tool-calling loop over OpenAI chat completions; the program is
`cells/incell/agent/reference.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from cells.incell.agent import MOUNT, RECORDS
from launchers.harnesses.protocol import OPENAI_CHAT, Gather, HarnessSettings, Launch, PlainHarness

TRACE = "reference.trace.jsonl"


class ReferenceSettings(HarnessSettings):
    """[arms.NAME] settings of `reference`."""

    prompt_suffix: str = ""
    """Added to the task's prompt, after an empty line."""
    system_suffix: str = ""
    """Added to the system prompt, after an empty line."""
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, strict=False)] | None = None
    bash_timeout_s: Annotated[float, Field(gt=0, strict=False)] = 60.0
    stream: bool = False


class Reference(PlainHarness):
    """The harness that shows what a harness needs."""

    name: ClassVar[str] = "reference"
    settings_model: ClassVar[type[HarnessSettings]] = ReferenceSettings
    needs_model: ClassVar[bool] = True
    speaks: ClassVar[frozenset[str]] = frozenset({OPENAI_CHAT})
    keeps_records: ClassVar[bool] = True

    def command(self, launch: Launch) -> tuple[str, ...]:
        """Our program, with the Python of the image."""
        return ("python3", "-B", f"{MOUNT}/reference.py")

    def environment(self, launch: Launch) -> Mapping[str, str]:
        """Its settings as one JSON document, and where its trace goes."""
        settings = json.dumps(dict(launch.settings), sort_keys=True, separators=(",", ":"))
        return {"ASSAY_SETTINGS": settings, "ASSAY_TRACE_FILE": f"{RECORDS}/{TRACE}"}

    def gathers(self, settings: Mapping[str, Any]) -> tuple[Gather, ...]:
        """Its trace."""
        return (Gather("records", TRACE),)
