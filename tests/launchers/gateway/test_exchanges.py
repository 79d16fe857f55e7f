"""An exchange from the cell to a scripted model and back, in every protocol, and what the record says of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cells.outcome import Ended

ASK: list[dict[str, Any]] = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "list the files"}]
CALL: dict[str, Any] = {"content": "I look.", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
USAGE: dict[str, Any] = {"input": 100, "cached": 60, "output": 10}


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_loop_over_chat_completions_ends_with_turns_and_results_on_the_record(bench: Any, stream: bool) -> None:
    cell = bench.scripted([{**CALL, "usage": USAGE}, {"content": "done", "usage": {"input": 150, "output": 4}}])
    messages = list(ASK)
    first = cell.chat(messages, stream=stream)
    assert first.status == 200
    call = {"id": "call_1_0", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
    messages += [{"role": "assistant", "content": "I look.", "tool_calls": [call]}, result("call_1_0", "a\nb")]
    assert cell.chat(messages, stream=stream).status == 200
    totals = cell.session.close("completed")
    assert (totals.turns, totals.requests, totals.input_tokens, totals.output_tokens) == (2, 2, 250, 14)
    assert totals.cached_tokens is None, "one reply lacked the count"
    assert totals.failure is None
    [made] = cell.trace("tool_call")
    assert (made["turn"], made["tool_name"], made["result_summary"], made["exit_status"]) == (0, "bash", "a\nb", None)
    assert [row["turn"] for row in cell.trace("turn")] == [0, 1]
    cell.assert_derived_alike()


@pytest.mark.parametrize("stream", [False, True])
def test_the_messages_protocol_is_answered_in_its_own_form(bench: Any, stream: bool) -> None:
    cell = bench.scripted([{**CALL, "usage": {**USAGE, "cache_write": 5}}, {"content": "done"}])
    tools = [{"name": "bash", "input_schema": {"type": "object"}}]
    ask = {"model": "m1", "system": "be brief", "max_tokens": 99, "tools": tools, "stream": stream}
    messages: list[Any] = [{"role": "user", "content": "list"}]
    got = cell.ask("POST", "/v1/messages?beta=true", {**ask, "messages": messages})
    assert got.status == 200
    if stream:
        assert got.headers["content-type"] == "text/event-stream"
        assert got.body.startswith(b"event: message_start\n")
    else:
        assert got.json()["usage"] == {
            "input_tokens": 35,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 5,
            "output_tokens": 10,
        }
    use = {"type": "tool_use", "id": "toolu_1_0", "name": "bash", "input": {"command": "ls"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1_0", "content": "a", "is_error": False}
    messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
    assert cell.ask("POST", "/v1/messages?beta=true", {**ask, "messages": messages}).status == 200
    cell.session.close()
    [made] = cell.trace("tool_call")
    assert (made["is_error"], made["result_summary"]) == (False, "a")
    assert cell.responses()[0].usage.model_dump() == {**USAGE, "cache_write": 5, "reasoning": None}
    cell.assert_derived_alike()


@pytest.mark.parametrize("stream", [False, True])
def test_the_responses_protocol_is_answered_in_its_own_form(bench: Any, stream: bool) -> None:
    cell = bench.scripted([{**CALL, "usage": {**USAGE, "reasoning": 3}}, {"content": "done"}])
    tools = [{"type": "function", "name": "bash", "parameters": {"type": "object"}}]
    ask = {"model": "m1", "instructions": "be brief", "tools": tools, "stream": stream}
    items: list[Any] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "list"}]}]
    got = cell.ask("POST", "/v1/responses", {**ask, "input": items})
    assert got.status == 200
    if stream:
        last = [json.loads(line[6:]) for line in got.body.splitlines() if line.startswith(b"data: ")][-1]
        assert last["type"] == "response.completed"
        output = last["response"]["output"]
    else:
        output = got.json()["output"]
    call = next(item for item in output if item["type"] == "function_call")
    items += [*output, {"type": "function_call_output", "call_id": call["call_id"], "output": "a"}]
    assert cell.ask("POST", "/v1/responses", {**ask, "input": items}).status == 200
    cell.session.close()
    assert [row["result_summary"] for row in cell.trace("tool_call")] == ["a"]
    assert cell.responses()[0].usage.model_dump() == {**USAGE, "cache_write": None, "reasoning": 3}
    cell.assert_derived_alike()


def test_the_input_limit_is_what_the_harness_sees(bench: Any) -> None:
    cell = bench.scripted([], input_limit=16_384)
    assert cell.ask("GET", "/props").json()["default_generation_settings"]["n_ctx"] == 16_384
    assert cell.ask("GET", "/slots").json()[0]["n_ctx"] == 16_384
    [model] = cell.ask("GET", "/v1/models").json()["data"]
    assert (model["id"], model["context_length"]) == ("m1", 16_384)
    assert cell.ask("GET", "/v1/models/other").status == 404
    totals = cell.session.close()
    assert (totals.requests, totals.exchanges, totals.turns) == (0, 4, 0)


def test_past_the_end_of_its_script_the_cell_is_lost(bench: Any) -> None:
    cell = bench.scripted([{"content": "only one"}])
    cell.chat(ASK)
    assert cell.chat(ASK).status == 503
    assert cell.session.status().failure == "script_exhausted"
    assert cell.chat(ASK).json()["error"]["code"] == "script_exhausted"
    assert cell.session.close().failure == "script_exhausted"


def test_a_script_that_expects_other_words_loses_the_cell(bench: Any) -> None:
    cell = bench.scripted([{"content": "x", "expect": "delete the files"}])
    assert cell.chat(ASK).status == 503
    assert cell.session.close().failure == "script_mismatch"


LIMITS = [
    ({"turns": 1}, Ended.TURN_LIMIT),
    ({"requests": 1}, Ended.REQUEST_LIMIT),
    ({"total_tokens": 110}, Ended.TOKEN_LIMIT),
    ({"cost": "0.0002"}, Ended.COST_LIMIT),
]


@pytest.mark.parametrize(("limit", "ended"), LIMITS, ids=[ended.value for _, ended in LIMITS])
def test_the_request_that_would_pass_a_limit_is_refused(bench: Any, limit: dict[str, Any], ended: Ended) -> None:
    price = {"input_per_mtok": "1.00", "output_per_mtok": "10.00", "currency": "EUR"}
    model = {"name": "fixed", "provider": "scripted", "model": "m1", "price": price}
    cell = bench.cell(model, [{**CALL, "usage": USAGE}] * 2, limits=replace(bench.limits, **limit))
    assert cell.chat(ASK).status == 200
    refused = cell.chat(ASK)
    assert (refused.status, refused.json()["error"]["code"]) == (403, ended.value)
    assert cell.session.status().limit_hit is ended
    totals = cell.session.close()
    assert (totals.limit_hit, totals.requests, totals.failure) == (ended, 1, None)
    assert str(totals.cost) == "0.0002"
    assert cell.responses()[0].cost == "0.0002"
    assert '"amount":"0.0002","currency":"EUR"' in (cell.root / "live/usage.jsonl").read_text()


def test_a_reply_longer_than_the_input_limit_is_replaced_by_the_protocols_own_error(bench: Any) -> None:
    cell = bench.scripted([{**CALL, "usage": USAGE}], input_limit=99)
    got = cell.chat(ASK)
    assert (got.status, got.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert "maximum context length is 99 tokens" in got.json()["error"]["message"]
    assert cell.session.status().context_refused
    totals = cell.session.close()
    assert (totals.turns, totals.input_tokens, totals.context_refused) == (0, 100, True)
    [row] = cell.responses()
    assert row.sent is not None and b"I look." in cell.body(row)
    cell.assert_derived_alike()


def test_a_request_that_continues_a_longer_prompt_is_refused_before_it_is_passed_on(bench: Any, upstream: Any) -> None:
    events = [
        {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 120, "completion_tokens": 2}},
    ]
    server = upstream(lambda out: out.stream([b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]))
    cell = bench.live(server, input_limit=100)
    assert cell.chat(ASK, stream=True).status == 200
    more = [*ASK, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "go on"}]
    assert cell.chat(more, stream=True).json()["error"]["code"] == "context_length_exceeded"
    assert cell.session.close().context_refused
    assert len(server.seen) == 1
    cell.assert_derived_alike()


def test_a_long_prompt_is_refused_before_the_first_byte_where_the_stream_tells_it(bench: Any) -> None:
    cell = bench.scripted([{**CALL, "usage": USAGE}], input_limit=99)
    ask = {"model": "m1", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "x"}]}
    got = cell.ask("POST", "/v1/messages", ask)
    assert (got.status, got.json()["error"]["message"]) == (400, "prompt is too long: 100 tokens > 99 maximum")
    cell.session.close()


def test_waiting_for_the_provider_is_counted_once_and_reading_slowly_is_not(bench: Any) -> None:
    cell = bench.scripted([{"content": "x", "delay_ms": 150}])
    cell.chat(ASK)
    status = cell.session.status()
    assert 0.15 <= status.waiting_s < 5
    assert cell.session.close().waiting_s == pytest.approx(status.waiting_s)


def test_peer_credentials_come_from_the_kernel(bench: Any) -> None:
    import os

    cell = bench.scripted([{"content": "x"}])
    cell.ask("POST", "/v1/chat/completions", {"model": "m", "messages": ASK}, {"x-forwarded-for": "10.0.0.1"})
    cell.session.close()
    [row] = cell.requests()
    assert (row.peer.uid, row.peer.pid) == (os.getuid(), os.getpid())
    assert "x-forwarded-for" not in row.headers


def test_a_closed_cell_leaves_no_socket_and_takes_no_more(bench: Any) -> None:
    cell = bench.scripted([{"content": "x"}])
    directory = cell.session.socket_dir
    assert directory.stat().st_mode & 0o777 == 0o711
    cell.session.close()
    assert not directory.exists()
    with pytest.raises(OSError):
        cell.raw()
