"""The scripted provider: replies from a file, one a line, for reproducible runs without a model.

Rules (20-interface, "Scripted provider"):
1. A line is `{lane?, content?, tool_calls?: [{name, arguments}], finish?, usage?, delay_ms?, error?: {status, body?,
   after_bytes?},
   expect?, repeat?}`; unknown keys are refused with their line number when the cell is opened.
2. Lines are served by lane, in order. `lane` is "main" (the default), "side" (any other lane), a lane's id ("lane-2"),
   or a pattern
   for the model's name ("claude-haiku*"); the most particular one that fits a request serves it. A `repeat` line is
   served again and again.
3. Past the end of its lines the cell is lost: `script_exhausted`. A last message that does not match `expect` is
   `script_mismatch`.
4. `error` without `after_bytes` answers with that status; with it the reply breaks off after so many bytes. Usage is
   what the line says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cells.errors import InputFileError, UsageError
from cells.evidence.files import read_regular
from cells.recording.wire import Protocol, Usage
from launchers.gateway.providers import scripted_reply
from launchers.gateway.providers.base import Call, ProviderFault, ProviderSetting, Reply
from launchers.gateway.routes import PROVIDER_PROTOCOLS

_MAX_SCRIPT = 64 << 20
_CONTEXT = "context_length"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ScriptedCall(_Part):
    """A tool call of a reply; `arguments` is the object that the tool gets, or its text as the model would write it."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)


class ScriptedError(_Part):
    """A fault: a status with a body, or a reply that breaks off after `after_bytes` bytes."""

    status: Annotated[int, Field(ge=200, le=599)] = 500
    body: str | dict[str, Any] | None = None
    after_bytes: Annotated[int, Field(ge=0)] | None = None


class ScriptedReply(_Part):
    """One line of a script."""

    lane: str = "main"
    content: str | None = None
    tool_calls: Annotated[tuple[ScriptedCall, ...], Field(strict=False)] = ()
    finish: Literal["stop", "tool_calls", "length", "content_filter"] | None = None
    usage: Usage | None = None
    delay_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0
    error: ScriptedError | None = None
    expect: str | None = None
    repeat: bool = False

    @field_validator("expect")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"expected a regular expression: {error}") from error
        return value


def read_script(path: Path) -> tuple[ScriptedReply, ...]:
    """The lines of a script; empty lines are left out. `InputFileError` names line and key."""
    replies = []
    for number, line in enumerate(read_regular(path, _MAX_SCRIPT).splitlines(), start=1):
        if line.strip():
            try:
                replies.append(ScriptedReply.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                key = ".".join(str(part) for part in first["loc"]) or None
                raise InputFileError(str(path), first["msg"], line=number, key=key) from error
    return tuple(replies)


@dataclass
class Scripted:
    """The script of one cell and how far it is served."""

    replies: tuple[ScriptedReply, ...]
    protocols: frozenset[Protocol]
    endpoint: str
    remote: bool = False
    _served: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Reply]:
        """The next reply for the call's lane."""
        line = self._next(call)
        self._check(line, call)
        if line.delay_ms:
            await asyncio.sleep(line.delay_ms / 1000)
        yield self._reply(line, call)

    async def probe(self) -> Mapping[str, Any]:
        """What there is to know of a script."""
        return {"provider": "scripted", "replies": len(self.replies)}

    def _next(self, call: Call) -> ScriptedReply:
        lane = self._lane_for(call)
        lines = [line for line in self.replies if line.lane == lane]
        served = self._served.get(lane or "", 0)
        if lane is None or served >= len(lines):
            asked = f"request {served + 1} of {lane or call.lane}"
            detail = f"{asked} (model {call.view.model if call.view else None}); the script has {len(lines)} for it"
            raise ProviderFault("script_exhausted", detail, failure="script_exhausted")
        if not lines[served].repeat:
            self._served[lane] = served + 1
        return lines[served]

    def _lane_for(self, call: Call) -> str | None:
        model = (call.view.model if call.view else None) or ""
        names = list(dict.fromkeys(line.lane for line in self.replies))
        general = "main" if call.is_main else "side"
        particular = [name for name in names if name not in ("main", "side") and name in (call.lane, model)]
        patterns = [name for name in names if name not in ("main", "side") and fnmatchcase(model, name)]
        return next(iter([*particular, *patterns, *(name for name in names if name == general)]), None)

    def _check(self, line: ScriptedReply, call: Call) -> None:
        text = call.view.last_text if call.view else ""
        if line.expect is not None and re.search(line.expect, text) is None:
            detail = f"expected {line.expect!r} in the last message; found {text[:200]!r}"
            raise ProviderFault("script_mismatch", detail, failure="script_mismatch")

    def _reply(self, line: ScriptedReply, call: Call) -> Reply:
        error = line.error
        if error is not None and error.after_bytes is None:
            return Reply(
                error.status, {"content-type": "application/json"}, scripted_reply.error_body(error.body, call.protocol)
            )
        tokens = line.usage.input if line.usage else None
        said = scripted_reply.Said(
            content=line.content,
            calls=tuple((item.name, item.arguments) for item in line.tool_calls),
            finish=line.finish or ("tool_calls" if line.tool_calls else "stop"),
            usage=line.usage,
            model=(call.view.model if call.view else None) or "scripted",
            key=f"{call.exchange}",
        )
        if call.view is not None and call.view.stream:
            events = scripted_reply.stream(call.protocol, said)
            headers = {"content-type": "text/event-stream"}
            return Reply(200, headers, stream=_parts(events, error.after_bytes if error else None), input_tokens=tokens)
        whole = scripted_reply.whole(call.protocol, said)
        headers = {"content-type": "application/json"}
        if error is not None:
            return Reply(200, headers, stream=_parts([whole], error.after_bytes), input_tokens=tokens)
        return Reply(200, headers, whole=whole, input_tokens=tokens)


async def _parts(parts: list[bytes], after_bytes: int | None) -> AsyncIterator[bytes]:
    left = sum(map(len, parts)) if after_bytes is None else after_bytes
    for part in parts:
        if part[:left]:
            yield part[:left]
        left -= len(part)
        if left < 0:
            break
    if after_bytes is not None:
        raise ProviderFault("broken_off", f"the script breaks the reply off after {after_bytes} bytes", retry=True)


def open_scripted(setting: ProviderSetting) -> Scripted:
    """The provider `scripted` for a cell's script."""
    if setting.script is None:
        raise UsageError(
            f"model {setting.model.get('name')!r}: a scripted model needs the script of its cell; none was given"
        )
    return Scripted(
        read_script(setting.script), PROVIDER_PROTOCOLS["scripted"], f"scripted {setting.model.get('name')}"
    )
