"""Anthropic messages, in and out.

Fields: `model, system, messages[{role, content: text | blocks}], tools[{name}], stream`; replies `content[]` blocks
`text`, `tool_use`,
`thinking`, `stop_reason`, `usage{input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens}`;
events
`message_start`, `content_block_*`, `message_delta`, `message_stop` (Anthropic API reference, messages).
Its `input_tokens` leaves the cached parts out; `Usage.input` is the sum, as in the other protocols.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from cells.recording import sse
from cells.recording.loose_json import compact, loose_digest
from cells.recording.protocols.chat import DONE, read_error
from cells.recording.views import (
    ReplyView,
    RequestView,
    ToolCall,
    ToolResult,
    Unreadable,
    count,
    known_usage,
    result_of,
    sequence,
    settings_of,
    table,
    text_of,
    text_or_none,
)
from cells.recording.wire import ErrorNote, Usage


def read_request(document: dict[str, Any]) -> RequestView:
    """The view of a messages request."""
    items = document.get("messages")
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise Unreadable("messages: expected a list of objects that is not empty")
    fresh = 1 + max((at for at, item in enumerate(items) if item.get("role") == "assistant"), default=-1)
    return RequestView(
        protocol="anthropic-messages",
        model=text_or_none(document.get("model")),
        stream=document.get("stream") is True,
        system_digest=loose_digest(text_of(document.get("system"))),
        tools_digest=loose_digest(document.get("tools")),
        tools=tuple(str(table(tool).get("name", "")) for tool in sequence(document.get("tools"))),
        items=tuple(items),
        fresh=fresh,
        results=tuple(_results(items[fresh:])),
        last_text=_last_text(items[-1].get("content")),
        settings=settings_of(document, "messages"),
    )


def _results(items: list[dict[str, Any]]) -> list[ToolResult]:
    blocks = [table(block) for item in items for block in sequence(item.get("content"))]
    return [
        result_of(block.get("tool_use_id"), block.get("content"), block.get("is_error"))
        for block in blocks
        if block.get("type") == "tool_result"
    ]


def _last_text(content: Any) -> str:
    blocks = [table(block) for block in sequence(content)]
    results = [text_of(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
    return "\n".join([*results, text_of(content)]) if results else text_of(content)


def read_reply(document: dict[str, Any]) -> ReplyView:
    """The view of a whole message."""
    blocks = [table(block) for block in sequence(document.get("content"))]
    return ReplyView(
        text="".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text"),
        reasoning_chars=sum(len(text_of(block.get("thinking"))) for block in blocks if block.get("type") == "thinking"),
        calls=tuple(_call(block) for block in blocks if block.get("type") == "tool_use"),
        finish=text_or_none(document.get("stop_reason")) or (DONE if document.get("type") == "message" else None),
        usage=read_usage(document.get("usage")),
        model=text_or_none(document.get("model")),
        error=read_error(document) if document.get("type") == "error" else None,
    )


def _call(block: dict[str, Any]) -> ToolCall:
    arguments = json.dumps(block.get("input"), separators=(",", ":"))
    return ToolCall(text_or_none(block.get("id")), str(block.get("name", "")), arguments)


def read_usage(value: Any) -> Usage | None:
    """`usage` of a message; the prompt is the sum of its three parts, null when the provider gave no prompt count."""
    if not isinstance(value, dict):
        return None
    plain, cached = count(value.get("input_tokens")), count(value.get("cache_read_input_tokens"))
    written = count(value.get("cache_creation_input_tokens"))
    whole = None if plain is None else plain + (cached or 0) + (written or 0)
    thinking = count(table(value.get("output_tokens_details")).get("thinking_tokens"))
    output = count(value.get("output_tokens"))
    return known_usage(Usage(input=whole, cached=cached, cache_write=written, output=output, reasoning=thinking))


@dataclass
class _Joined:
    text: list[str] = field(default_factory=list)
    thinking: int = 0
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    error: ErrorNote | None = None
    stopped: bool = False

    def add(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                message = table(event.get("message"))
                self.model = text_or_none(message.get("model"))
                self.usage.update(table(message.get("usage")))
            case "content_block_start":
                self._start(event.get("index"), table(event.get("content_block")))
            case "content_block_delta":
                self._delta(event.get("index"), table(event.get("delta")))
            case "message_delta":
                self.finish = text_or_none(table(event.get("delta")).get("stop_reason")) or self.finish
                self.usage.update({key: part for key, part in table(event.get("usage")).items() if part is not None})
            case "message_stop":
                self.stopped = True
            case "error":
                self.error = read_error(event)

    def _start(self, index: Any, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use" and isinstance(index, int):
            self.calls[index] = {"id": text_or_none(block.get("id")), "name": str(block.get("name", "")), "parts": []}
        self.text.append(text_of(block.get("text")))

    def _delta(self, index: Any, delta: dict[str, Any]) -> None:
        self.text.append(text_of(delta.get("text")))
        self.thinking += len(text_of(delta.get("thinking")))
        if isinstance(index, int) and index in self.calls:
            self.calls[index]["parts"].append(text_of(delta.get("partial_json")))


def read_stream(body: bytes) -> ReplyView:
    """The view of a streamed message; `finish` is null unless the stream reached `message_stop`."""
    joined = _Joined()
    found, _ = sse.documents(body)
    for document in found:
        joined.add(document)
    calls = tuple(
        ToolCall(call["id"], call["name"], compact("".join(call["parts"]) or "{}")) for call in joined.calls.values()
    )
    return ReplyView(
        text="".join(joined.text),
        reasoning_chars=joined.thinking,
        calls=calls,
        finish=(joined.finish or DONE) if joined.stopped else None,
        usage=read_usage(joined.usage) if joined.usage else None,
        model=joined.model,
        error=joined.error,
    )


def early_input(first_bytes: bytes) -> int | None:
    """The prompt's token count where the stream's first event already tells it; null otherwise."""
    found, _ = sse.documents(first_bytes)
    if not found or found[0].get("type") != "message_start":
        return None
    usage = read_usage(table(found[0].get("message")).get("usage"))
    return usage.input if usage else None
