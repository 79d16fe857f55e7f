"""`reference`: our own harness, a tool-calling loop over OpenAI chat completions; the program is
`cells/incell/agent/reference.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from cells.incell.agent import MOUNT, RECORDS
from launchers.harnesses.protocol import (
    OPENAI_CHAT,
    Claims,
    Gather,
    HarnessSettings,
    Launch,
    PlainHarness,
    ReadRecord,
)

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

    def claims(self, read: ReadRecord) -> Claims | None:
        """Turns, calls and tokens as its trace counts them."""
        try:
            rows = [json.loads(line) for line in (read(TRACE) or b"").splitlines()]
            turns = [row for row in rows if row["event"] == "turn"]
            usages = [row["usage"] or {} for row in turns]
            return Claims(
                turns=len(turns),
                tool_calls=sum(int(row["tool_calls"]) for row in turns),
                input_tokens=_sum(usage.get("prompt_tokens") for usage in usages),
                output_tokens=_sum(usage.get("completion_tokens") for usage in usages),
            )
        except (ValueError, KeyError, TypeError, AttributeError):  # the cell wrote it: it may be anything
            return None

    def gathers(self, settings: Mapping[str, Any]) -> tuple[Gather, ...]:
        """Its trace."""
        return (Gather("records", TRACE),)


def _sum(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    return None if None in found else sum(count for count in found if count is not None)
