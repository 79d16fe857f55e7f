"""What a scripted reply looks like in each protocol, whole and streamed. The same line gives the same bytes: no clock,
no randomness."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cells.recording.wire import Protocol, Usage

_PIECE = 48
"""Characters of text in one event."""
_MESSAGES_STOP = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


@dataclass(frozen=True)
class Said:
    """What the model says. `key` makes the ids of the reply; `finish` is the word of chat completions."""

    content: str | None
    calls: tuple[tuple[str, dict[str, Any] | str], ...]
    finish: str
    usage: Usage | None
    model: str
    key: str

    def call_id(self, number: int, prefix: str = "call") -> str:
        return f"{prefix}_{self.key}_{number}"


def whole(protocol: Protocol, said: Said) -> bytes:
    """The body of a reply that is not streamed."""
    makers = {"openai-chat": _chat, "openai-responses": _response, "anthropic-messages": _message}
    return _json(makers[protocol](said))


def stream(protocol: Protocol, said: Said) -> list[bytes]:
    """The events of a streamed reply."""
    makers = {"openai-chat": _chat_events, "openai-responses": _response_events, "anthropic-messages": _message_events}
    return list(makers[protocol](said))


def error_body(body: str | dict[str, Any] | None, protocol: Protocol) -> bytes:
    """The body of an error: as the script says, or the protocol's form of one."""
    if isinstance(body, str):
        return body.encode()
    if body is not None:
        return _json(body)
    message = {"message": "scripted error", "type": "server_error" if protocol != "anthropic-messages" else "api_error"}
    return _json({"type": "error", "error": message} if protocol == "anthropic-messages" else {"error": message})


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def _arguments(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def _details(usage: Usage, names: tuple[str, str, str, str]) -> dict[str, Any]:
    """OpenAI's usage object in the words of chat or of responses: prompt, its details, reply, its details."""
    found: dict[str, Any] = {names[0]: usage.input, names[2]: usage.output}
    if usage.input is not None and usage.output is not None:
        found["total_tokens"] = usage.input + usage.output
    cache = {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write}
    if told := {name: value for name, value in cache.items() if value is not None}:
        found[names[1]] = told
    if usage.reasoning is not None:
        found[names[3]] = {"reasoning_tokens": usage.reasoning}
    return {name: value for name, value in found.items() if value is not None}


_CHAT_WORDS = ("prompt_tokens", "prompt_tokens_details", "completion_tokens", "completion_tokens_details")
_RESPONSE_WORDS = ("input_tokens", "input_tokens_details", "output_tokens", "output_tokens_details")


def _chat(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.content}
    if said.calls:
        message["tool_calls"] = [_chat_call(said, number) for number in range(len(said.calls))]
    choice = {"index": 0, "message": message, "finish_reason": said.finish, "logprobs": None}
    reply = {**_chat_head(said, "chat.completion"), "choices": [choice]}
    return reply if said.usage is None else {**reply, "usage": _details(said.usage, _CHAT_WORDS)}


def _chat_head(said: Said, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{said.key}", "object": kind, "created": 0, "model": said.model}


def _chat_call(said: Said, number: int) -> dict[str, Any]:
    name, arguments = said.calls[number]
    function = {"name": name, "arguments": _arguments(arguments)}
    return {"id": said.call_id(number), "type": "function", "function": function}


def _chat_events(said: Said) -> Iterator[bytes]:
    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + _json({**_chat_head(said, "chat.completion.chunk"), "choices": [choice]}) + b"\n\n"

    yield event({"role": "assistant", "content": ""})
    for piece in _pieces(said.content or ""):
        yield event({"content": piece})
    for number in range(len(said.calls)):
        call = _chat_call(said, number)
        text = call["function"]["arguments"]
        call["function"] = {**call["function"], "arguments": ""}
        yield event({"tool_calls": [{"index": number, **call}]})
        for piece in _pieces(text):
            yield event({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    yield event({}, said.finish)
    if said.usage is not None:
        last = {**_chat_head(said, "chat.completion.chunk"), "choices": [], "usage": _details(said.usage, _CHAT_WORDS)}
        yield b"data: " + _json(last) + b"\n\n"
    yield b"data: [DONE]\n\n"


def _response(said: Said, status: str | None = None) -> dict[str, Any]:
    stops = {"length": "max_output_tokens", "content_filter": "content_filter"}
    found: dict[str, Any] = {"id": f"resp_{said.key}", "object": "response", "created_at": 0, "model": said.model}
    found["status"] = status or ("incomplete" if said.finish in stops else "completed")
    if found["status"] == "incomplete":
        found["incomplete_details"] = {"reason": stops[said.finish]}
    found |= {"error": None, "output": [] if status else list(_response_items(said)), "parallel_tool_calls": True}
    if said.usage is not None and status is None:
        found["usage"] = _details(said.usage, _RESPONSE_WORDS)
    return found


def _response_items(said: Said) -> Iterator[dict[str, Any]]:
    if said.content is not None:
        text = {"type": "output_text", "text": said.content, "annotations": []}
        yield {
            "id": f"msg_{said.key}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
    for number, (name, arguments) in enumerate(said.calls):
        call = {"id": said.call_id(number, "fc"), "type": "function_call", "call_id": said.call_id(number)}
        yield {**call, "name": name, "arguments": _arguments(arguments), "status": "completed"}


def _response_events(said: Said) -> Iterator[bytes]:
    numbers = iter(range(1 << 30))

    def event(kind: str, **fields: Any) -> bytes:
        body = _json({"type": kind, "sequence_number": next(numbers), **fields})
        return f"event: {kind}\ndata: ".encode() + body + b"\n\n"

    yield event("response.created", response=_response(said, "in_progress"))
    for index, item in enumerate(_response_items(said)):
        place = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            started = {**item, "status": "in_progress", "content": []}
            yield event("response.output_item.added", output_index=index, item=started)
            part = {"type": "output_text", "text": "", "annotations": []}
            yield event("response.content_part.added", **place, content_index=0, part=part)
            for piece in _pieces(text):
                yield event("response.output_text.delta", **place, content_index=0, delta=piece)
            yield event("response.output_text.done", **place, content_index=0, text=text)
            yield event("response.content_part.done", **place, content_index=0, part={**part, "text": text})
        else:
            started = {**item, "status": "in_progress", "arguments": ""}
            yield event("response.output_item.added", output_index=index, item=started)
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            yield event("response.function_call_arguments.done", **place, arguments=item["arguments"])
        yield event("response.output_item.done", output_index=index, item=item)
    final = _response(said)
    yield event(f"response.{final['status']}", response=final)


def _message(said: Said) -> dict[str, Any]:
    return {
        **_message_head(said),
        "content": list(_message_blocks(said)),
        "stop_reason": _MESSAGES_STOP[said.finish],
        "stop_sequence": None,
        **({} if said.usage is None else {"usage": _message_usage(said.usage)}),
    }


def _message_head(said: Said) -> dict[str, Any]:
    return {"id": f"msg_{said.key}", "type": "message", "role": "assistant", "model": said.model}


def _message_usage(usage: Usage | None) -> dict[str, Any]:
    """The protocol leaves cached tokens out of the prompt's count. Without a count in the script there is none in the
    reply."""
    told = usage or Usage()
    plain = None if told.input is None else told.input - (told.cached or 0) - (told.cache_write or 0)
    counts = {
        "input_tokens": plain,
        "cache_read_input_tokens": told.cached,
        "cache_creation_input_tokens": told.cache_write,
        "output_tokens": told.output,
        "output_tokens_details": None if told.reasoning is None else {"thinking_tokens": told.reasoning},
    }
    return {name: value for name, value in counts.items() if value is not None}


def _message_blocks(said: Said) -> Iterator[dict[str, Any]]:
    if said.content is not None:
        yield {"type": "text", "text": said.content}
    for number, (name, arguments) in enumerate(said.calls):
        yield {"type": "tool_use", "id": said.call_id(number, "toolu"), "name": name, "input": _object(arguments)}


def _object(arguments: dict[str, Any] | str) -> Any:
    """This protocol has objects only: a text that is none stands in one, under `arguments`."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return {"arguments": arguments}


def _message_events(said: Said) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\ndata: ".encode() + _json({"type": kind, **fields}) + b"\n\n"

    usage = _message_usage(said.usage)
    first = {name: value for name, value in usage.items() if not name.startswith("output_tokens")}
    start = {**_message_head(said), "content": [], "stop_reason": None, "stop_sequence": None, "usage": first}
    yield event("message_start", message=start)
    for index, block in enumerate(_message_blocks(said)):
        if block["type"] == "text":
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        else:
            yield event("content_block_start", index=index, content_block={**block, "input": {}})
            text = _arguments(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text)]
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stop = {"stop_reason": _MESSAGES_STOP[said.finish], "stop_sequence": None}
    last = {name: value for name, value in usage.items() if name.startswith("output_tokens")}
    yield event("message_delta", delta=stop, usage=last)
    yield event("message_stop")
