"""Replies and requests of the three protocols as views: whole or nothing, and never a guess."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.recording import sse
from cells.recording.protocols import Unreadable, read_reply, read_request
from cells.recording.wire import Protocol, Usage

PROTOCOLS: tuple[Protocol, ...] = ("openai-chat", "openai-responses", "anthropic-messages")


def events(*documents: Any, name: bool = False) -> bytes:
    parts = []
    for document in documents:
        head = f"event: {document['type']}\n" if name else ""
        parts.append(f"{head}data: {json.dumps(document)}\n\n")
    return "".join(parts).encode()


def test_a_system_prompt_opens_another_lane_and_a_cache_mark_does_not() -> None:
    def view(**fields: Any) -> Any:
        message = {"role": "user", "content": [{"type": "text", "text": "x", **fields.pop("mark", {})}]}
        return read_request("anthropic-messages", json.dumps({"messages": [message], **fields}).encode())

    assert view(system="a").system_digest != view(system="b").system_digest
    assert view(system="a").system_digest == view(system=[{"type": "text", "text": "a"}]).system_digest
    marked = view(mark={"cache_control": {"type": "ephemeral"}})
    assert marked.item_digest(0) == view().item_digest(0)


def test_what_is_fresh_comes_after_the_last_words_of_the_model() -> None:
    items: list[Any] = [{"role": "user"}, {"type": "reasoning"}, {"type": "function_call", "call_id": "c"}]
    items += [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "out"}]}]
    view = read_request("openai-responses", json.dumps({"input": items}).encode())
    assert (view.fresh, [result.text for result in view.results], view.last_text) == (3, ["out"], "out")


def test_a_text_as_input_is_one_message() -> None:
    view = read_request("openai-responses", b'{"input": "hello", "model": "m"}')
    assert (len(view.items), view.last_text, view.settings) == (1, "hello", {"model": "m"})


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({"input_tokens": 5, "output_tokens": 2}, Usage(input=5, output=2)),
        (
            {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4, "output_tokens": 2},
            Usage(input=12, cached=3, cache_write=4, output=2),
        ),
        ({"cache_read_input_tokens": 3}, Usage(cached=3)),
        ({"input_tokens": -1, "output_tokens": "2"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_prompt_of_the_messages_protocol_is_the_sum_of_its_parts(usage: Any, found: Usage | None) -> None:
    reply = read_reply("anthropic-messages", json.dumps({"type": "message", "usage": usage}).encode(), streamed=False)
    assert reply.usage == found


def test_an_error_inside_a_stream_is_no_end() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 4}}}
    reply = read_reply("anthropic-messages", events(start, error, name=True), streamed=True)
    assert (reply.finish, reply.error and reply.error.kind, reply.usage) == (None, "overloaded_error", Usage(input=4))
    failed = {"type": "response.failed", "response": {"status": "failed", "error": {"code": "x", "message": "no"}}}
    reply = read_reply("openai-responses", events(failed), streamed=True)
    assert (reply.finish, reply.error and reply.error.detail) == ("failed", "no")


def test_a_response_that_was_cut_says_so() -> None:
    document = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    reply = read_reply("openai-responses", json.dumps(document).encode(), streamed=False)
    assert reply.cut_by_length
    done = {"type": "response.incomplete", "response": document}
    item = {
        "type": "response.output_item.done",
        "item": {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "i"},
    }
    reply = read_reply("openai-responses", events(item, done), streamed=True)
    assert (reply.cut_by_length, reply.calls[0].arguments) == (True, "i")


def test_a_chat_stream_that_says_done_is_whole_without_a_reason() -> None:
    delta = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
    assert read_reply("openai-chat", events(delta), streamed=True).finish is None
    assert read_reply("openai-chat", events(delta) + b"data: [DONE]\n\n", streamed=True).finish == "done"


def test_call_parts_join_by_index_also_when_they_mix() -> None:
    def part(index: int, **fields: Any) -> Any:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, **fields}]}}]}

    body = events(
        part(0, id="a", function={"name": "one", "arguments": ""}),
        part(1, id="b", function={"name": "two", "arguments": "{"}),
        part(0, function={"arguments": "[1"}),
        part(1, function={"arguments": "}"}),
        part(0, function={"arguments": "]"}),
    )
    calls = read_reply("openai-chat", body, streamed=True).calls
    assert [(call.id, call.name, call.arguments) for call in calls] == [("a", "one", "[1]"), ("b", "two", "{}")]


@given(
    st.lists(
        st.sampled_from([b"data: {}", b"event: x", b": note", b"data: [DONE]", b"\n", b"\r\n", b"\xff", b"{"]),
        max_size=30,
    )
)
def test_any_stream_is_read_and_none_of_its_bytes_is_lost_between_events(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    found, rest = sse.split_events(stream)
    assert stream.endswith(rest)
    assert len(found) <= stream.count(b"data") + stream.count(b"event")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "tool_calls",
                    "function",
                    "name",
                    "id",
                    "choices",
                    "delta",
                    "message",
                    "usage",
                    "input",
                    "output",
                    "messages",
                    "tools",
                    "index",
                    "error",
                    "response",
                    "item",
                    "status",
                    "assistant",
                    "tool_result",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(value=json_values)
def test_any_document_is_read_or_refused(protocol: Protocol, value: Any) -> None:
    body = json.dumps(value).encode()
    for read in (
        lambda: read_request(protocol, body),
        lambda: read_reply(protocol, body, streamed=False),
        lambda: read_reply(protocol, b"data: " + body + b"\n\n", streamed=True),
    ):
        try:
            view: Any = read()
        except Unreadable:
            continue
        if hasattr(view, "items") and view.items:
            assert view.item_digest(len(view.items) - 1).startswith("sha256:")


@pytest.mark.parametrize("depth", [90, 99, 100, 101, 500, 900, 990, 5000, 100_000])
def test_the_depth_that_is_read_does_not_depend_on_the_readers_stack(depth: int) -> None:
    from cells.recording.loose_json import NoJson, parse

    def answer(stack: int) -> bool:
        if stack:
            return answer(stack - 1)
        try:
            parse("[" * depth + "]" * depth)
        except NoJson:
            return False
        return True

    assert answer(0) is answer(400) is (depth <= 100)
