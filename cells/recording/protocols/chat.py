"""OpenAI chat completions, in and out.

Fields: `model, messages[{role, content, tool_calls, tool_call_id}], tools[{function: {name}}], stream`; replies
`choices[0].{message | delta}`, `finish_reason`, `usage{prompt_tokens, completion_tokens, *_details}` (OpenAI API
reference, chat).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cells.recording import sse
from cells.recording.loose_json import loose_digest
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

_SYSTEM = ("system", "developer")
DONE = "done"
"""The finish of a reply that is whole and names no reason: not every server gives one."""


def read_request(document: dict[str, Any]) -> RequestView:
    """The view of a chat request."""
    items = document.get("messages")
    if not isinstance(items, list) or not items:
        raise Unreadable("messages: expected a list that is not empty")
    if not all(isinstance(item, dict) for item in items):
        raise Unreadable("messages: expected objects")
    fresh = 1 + max((at for at, item in enumerate(items) if item.get("role") == "assistant"), default=-1)
    return RequestView(
        protocol="openai-chat",
        model=text_or_none(document.get("model")),
        stream=document.get("stream") is True,
        system_digest=loose_digest(_head(items)),
        tools_digest=loose_digest(document.get("tools")),
        tools=tuple(_tool_name(tool) for tool in sequence(document.get("tools"))),
        items=tuple(items),
        fresh=fresh,
        results=tuple(_results(items[fresh:])),
        last_text=text_of(items[-1].get("content")),
        settings=settings_of(document, "messages"),
    )


def _head(items: list[dict[str, Any]]) -> list[Any]:
    head = []
    for item in items:
        if item.get("role") not in _SYSTEM:
            break
        head.append(item.get("content"))
    return head


def _tool_name(tool: Any) -> str:
    return str(table(table(tool).get("function")).get("name", ""))


def _results(items: list[dict[str, Any]]) -> list[ToolResult]:
    return [result_of(item.get("tool_call_id"), item.get("content")) for item in items if item.get("role") == "tool"]


def read_reply(document: dict[str, Any]) -> ReplyView:
    """The view of a whole chat completion."""
    choice = table((sequence(document.get("choices")) or [None])[0])
    message = table(choice.get("message"))
    return ReplyView(
        text=text_of(message.get("content")),
        reasoning_chars=len(text_of(message.get("reasoning_content") or message.get("reasoning"))),
        calls=tuple(_call(call) for call in sequence(message.get("tool_calls"))),
        finish=text_or_none(choice.get("finish_reason")) or (DONE if "message" in choice else None),
        usage=read_usage(document.get("usage")),
        model=text_or_none(document.get("model")),
        error=read_error(document),
    )


def _call(call: Any) -> ToolCall:
    function = table(table(call).get("function"))
    return ToolCall(
        text_or_none(table(call).get("id")), str(function.get("name", "")), text_of(function.get("arguments"))
    )


def read_usage(value: Any) -> Usage | None:
    """`usage` of a chat completion; null when the provider gave none."""
    if not isinstance(value, dict):
        return None
    return known_usage(
        Usage(
            input=count(value.get("prompt_tokens")),
            cached=count(table(value.get("prompt_tokens_details")).get("cached_tokens")),
            cache_write=count(table(value.get("prompt_tokens_details")).get("cache_write_tokens")),
            output=count(value.get("completion_tokens")),
            reasoning=count(table(value.get("completion_tokens_details")).get("reasoning_tokens")),
        )
    )


def read_error(document: dict[str, Any]) -> ErrorNote | None:
    """The `error` of a document, when it has one."""
    error = document.get("error")
    if not error:
        return None
    found = table(error)
    return ErrorNote(kind=str(found.get("type") or "error")[:80], detail=str(found.get("message", error))[:500])


@dataclass
class _Joined:
    text: list[str] = field(default_factory=list)
    reasoning: int = 0
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finish: str | None = None
    usage: Usage | None = None
    model: str | None = None
    error: ErrorNote | None = None

    def add(self, document: dict[str, Any]) -> None:
        self.model = text_or_none(document.get("model")) or self.model
        self.usage = read_usage(document.get("usage")) or self.usage
        self.error = read_error(document) or self.error
        for choice in sequence(document.get("choices")):
            if table(choice).get("index", 0) == 0:
                self._delta(table(table(choice).get("delta")))
                self.finish = text_or_none(table(choice).get("finish_reason")) or self.finish

    def _delta(self, delta: dict[str, Any]) -> None:
        self.text.append(text_of(delta.get("content")))
        self.reasoning += len(text_of(delta.get("reasoning_content") or delta.get("reasoning")))
        for part in sequence(delta.get("tool_calls")):
            self._call(table(part))

    def _call(self, part: dict[str, Any]) -> None:
        index = part.get("index")
        if not isinstance(index, int):
            index = len(self.calls)
        call = self.calls.setdefault(index, {"id": None, "name": "", "arguments": []})
        call["id"] = text_or_none(part.get("id")) or call["id"]
        call["name"] = text_of(table(part.get("function")).get("name")) or call["name"]
        call["arguments"].append(text_of(table(part.get("function")).get("arguments")))


def read_stream(body: bytes) -> ReplyView:
    """The view of a streamed chat completion; `finish` is null unless the stream reached it."""
    joined = _Joined()
    found, done = sse.documents(body)
    for document in found:
        joined.add(document)
    if done and joined.finish is None and joined.error is None:
        joined.finish = DONE
    calls = tuple(ToolCall(call["id"], call["name"], "".join(call["arguments"])) for call in joined.calls.values())
    return ReplyView(
        "".join(joined.text), joined.reasoning, calls, joined.finish, joined.usage, joined.model, joined.error
    )
