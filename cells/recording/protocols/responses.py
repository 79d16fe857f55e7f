"""OpenAI responses, in and out.

Fields: `model, instructions, input (text or items), tools[{type, name}], stream, previous_response_id`; replies
`output[]` items
`message`, `function_call`, `reasoning`, `status`, `usage{input_tokens, output_tokens, *_details}`; events `response.*`
(OpenAI API reference, responses). With `previous_response_id` the request holds only what is new.
"""

from __future__ import annotations

from typing import Any

from cells.recording import sse
from cells.recording.loose_json import loose_digest
from cells.recording.protocols.chat import read_error
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

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_SYSTEM = ("system", "developer")
_TERMINAL = ("response.completed", "response.incomplete", "response.failed")


def read_request(document: dict[str, Any]) -> RequestView:
    """The view of a responses request."""
    items = _items(document.get("input"))
    fresh = 1 + max((at for at, item in enumerate(items) if _is_model(item)), default=-1)
    return RequestView(
        protocol="openai-responses",
        model=text_or_none(document.get("model")),
        stream=document.get("stream") is True,
        system_digest=loose_digest([document.get("instructions"), _head(items)]),
        tools_digest=loose_digest(document.get("tools")),
        tools=tuple(_tool_name(tool) for tool in sequence(document.get("tools"))),
        items=tuple(items),
        fresh=fresh,
        results=tuple(_results(items[fresh:])),
        last_text=_item_text(items[-1]) if items else "",
        settings=settings_of(document, "input"),
    )


def _items(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Unreadable("input: expected a text or a list of objects")
    return value


def _is_model(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or item.get("type") in (*_CALLS, "reasoning")


def _head(items: list[dict[str, Any]]) -> list[Any]:
    head = []
    for item in items:
        if item.get("role") not in _SYSTEM:
            break
        head.append(item.get("content"))
    return head


def _tool_name(tool: Any) -> str:
    return str(table(tool).get("name") or table(tool).get("type", ""))


def _results(items: list[dict[str, Any]]) -> list[ToolResult]:
    return [result_of(item.get("call_id"), item.get("output")) for item in items if item.get("type") in _OUTPUTS]


def _item_text(item: dict[str, Any]) -> str:
    return text_of(item.get("output") if item.get("type") in _OUTPUTS else item.get("content"))


def read_reply(document: dict[str, Any]) -> ReplyView:
    """The view of a whole response object."""
    output = [table(item) for item in sequence(document.get("output"))]
    return ReplyView(
        text="".join(text_of(item.get("content")) for item in output if item.get("type") == "message"),
        reasoning_chars=sum(len(text_of(item.get("summary"))) for item in output if item.get("type") == "reasoning"),
        calls=tuple(_call(item) for item in output if item.get("type") in _CALLS),
        finish=_finish(document),
        usage=read_usage(document.get("usage")),
        model=text_or_none(document.get("model")),
        error=read_error(document),
    )


def _call(item: dict[str, Any]) -> ToolCall:
    name = str(item.get("name") or item.get("type", ""))
    arguments = item.get("arguments", item.get("input", item.get("action")))
    return ToolCall(text_or_none(item.get("call_id")), name, text_of(arguments))


def _finish(document: dict[str, Any]) -> str | None:
    status = document.get("status")
    if status == "incomplete":
        return text_or_none(table(document.get("incomplete_details")).get("reason")) or "incomplete"
    return status if status in ("completed", "failed") else None


def read_usage(value: Any) -> Usage | None:
    """`usage` of a response; null when the provider gave none."""
    if not isinstance(value, dict):
        return None
    return known_usage(
        Usage(
            input=count(value.get("input_tokens")),
            cached=count(table(value.get("input_tokens_details")).get("cached_tokens")),
            cache_write=count(table(value.get("input_tokens_details")).get("cache_write_tokens")),
            output=count(value.get("output_tokens")),
            reasoning=count(table(value.get("output_tokens_details")).get("reasoning_tokens")),
        )
    )


def read_stream(body: bytes) -> ReplyView:
    """The view of a streamed response: the object of its last event, or the items that were done when it broke off."""
    found, _ = sse.documents(body)
    done: list[Any] = []
    error: ErrorNote | None = None
    for document in found:
        kind = document.get("type")
        if kind in _TERMINAL:
            final = table(document.get("response"))
            return read_reply(final if final.get("output") else {**final, "output": done})
        if kind == "response.output_item.done":
            done.append(document.get("item"))
        elif kind == "error":
            error = read_error({"error": document})
    broken = read_reply({"output": done})
    return broken if error is None else ReplyView(broken.text, 0, broken.calls, None, None, None, error)
