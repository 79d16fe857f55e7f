"""Scripts: one reply a line, by lane, in order; the same line says the same in every protocol, whole or streamed."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.errors import InputFileError
from cells.recording.protocols import read_reply
from cells.recording.wire import Protocol, Usage
from launchers.gateway.providers.scripted import read_script
from launchers.gateway.providers.scripted_reply import Said, stream, whole

ASK = [{"role": "user", "content": "hello"}]
counts = st.integers(0, 10**6)
usages = st.none() | st.builds(
    lambda plain, cached, written, output: Usage(
        input=plain + cached + written, cached=cached, cache_write=written, output=output
    ),
    *(counts for _ in range(4)),
)
said = st.builds(
    Said,
    content=st.none() | st.text(max_size=200),
    calls=st.lists(
        st.tuples(
            st.text(min_size=1, max_size=9), st.dictionaries(st.text(max_size=5), st.text(max_size=90), max_size=3)
        ),
        max_size=3,
    ).map(tuple),
    finish=st.sampled_from(["stop", "tool_calls", "length", "content_filter"]),
    usage=usages,
    model=st.just("m"),
    key=st.just("1"),
)


@pytest.mark.parametrize("protocol", get_args(Protocol))
@given(said=said)
def test_a_streamed_reply_says_what_the_whole_one_says(protocol: Protocol, said: Said) -> None:
    one = read_reply(protocol, whole(protocol, said), streamed=False)
    parts = stream(protocol, said)
    two = read_reply(protocol, b"".join(parts), streamed=True)
    assert one == two
    assert one.finish is not None
    assert one.text == (said.content or "").encode("utf-8", "replace").decode()
    assert [json.loads(call.arguments) for call in one.calls] == [arguments for _, arguments in said.calls]
    assert parts == stream(protocol, said), "the same line gives the same bytes"
    for cut in range(len(parts) - (2 if protocol == "openai-chat" else 1)):
        assert read_reply(protocol, b"".join(parts[:cut]), streamed=True).finish is None


def test_counts_survive_each_protocol() -> None:
    usage = Usage(input=10, cached=4, cache_write=2, output=3, reasoning=1)
    for protocol in get_args(Protocol):
        reply = read_reply(protocol, whole(protocol, Said("x", (), "stop", usage, "m", "1")), streamed=False)
        assert reply.usage == usage


WRONG = {
    '{"content": 5}': "content",
    '{"finish": "never"}': "finish",
    '{"delay_ms": -1}': "delay_ms",
    '{"expect": "("}': "expect",
    '{"tool_calls": [{"nam": "x"}]}': "tool_calls.0.name",
    '{"error": {"status": 99}}': "error.status",
    '{"usage": {"inputs": 1}}': "usage.inputs",
    "{": "Invalid JSON",
    "[]": "Input should be an object",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_named_with_its_key(tmp_path: Path, line: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"content": "fine"}\n\n' + line + "\n")
    with pytest.raises(InputFileError) as refusal:
        read_script(path)
    assert refusal.value.line == 3
    assert WRONG[line] in str(refusal.value)


def test_replies_are_chosen_by_lane_and_order_never_by_arrival(bench: Any) -> None:
    cell = bench.scripted(
        [
            {"content": "main 1"},
            {"content": "title", "lane": "small-*"},
            {"content": "main 2"},
            {"content": "side 1", "lane": "side"},
            {"content": "of lane 4", "lane": "lane-4"},
        ]
    )

    def ask(model: str, system: str) -> str:
        document = {"model": model, "messages": [{"role": "system", "content": system}, *ASK], "tools": bench.tools}
        return str(cell.ask("POST", "/v1/chat/completions", document).json()["choices"][0]["message"]["content"])

    assert ask("m1", "main") == "main 1"
    assert ask("small-model", "title") == "title"
    assert ask("m1", "helper") == "side 1"
    assert ask("m1", "another") == "of lane 4"
    assert ask("m1", "main") == "main 2"
    cell.session.close()


def test_a_repeated_line_serves_for_ever(bench: Any) -> None:
    cell = bench.scripted([{"content": "again", "repeat": True}])
    assert [cell.chat(ASK).status for _ in range(5)] == [200] * 5
    cell.session.close()


def test_a_scripted_error_is_the_providers_error(bench: Any) -> None:
    cell = bench.scripted([{"error": {"status": 418, "body": "short and stout"}}, {"error": {"status": 400}}])
    got = cell.chat(ASK)
    assert (got.status, got.body) == (418, b"short and stout")
    assert cell.chat(ASK).json() == {"error": {"message": "scripted error", "type": "server_error"}}
    assert cell.session.close().failure is None


def test_a_scripted_error_is_tried_again_like_any(bench: Any) -> None:
    model = {"name": "fixed", "provider": "scripted", "model": "m1", "max_retries": 1}
    cell = bench.cell(model, [{"error": {"status": 503}}, {"content": "better"}])
    assert cell.chat(ASK).status == 200
    assert cell.session.close().retries == 1


@pytest.mark.parametrize("streamed", [True, False])
def test_a_scripted_reply_breaks_off_after_its_bytes(bench: Any, streamed: bool) -> None:
    cell = bench.scripted([{"content": "x" * 500, "error": {"after_bytes": 300}}])
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        cell.chat(ASK, stream=streamed)
    totals = cell.session.close()
    assert (totals.turns, totals.failure) == (0, "provider_error")
    [row] = cell.responses()
    assert (len(cell.body(row)), row.error.kind) == (300, "broken_off")
    cell.assert_derived_alike()


def test_scripted_faults_of_one_cell_close_no_endpoint_for_another(bench: Any) -> None:
    cell = bench.scripted([{"error": {"after_bytes": 0}}] * 10)
    for _ in range(10):
        assert cell.chat(ASK).status == 502
    other = bench.scripted([{"content": "fine"}])
    assert other.chat(ASK).status == 200
    for one in (cell, other):
        one.session.close()


def test_arguments_may_be_text_that_is_no_json(bench: Any) -> None:
    cell = bench.scripted([{"tool_calls": [{"name": "bash", "arguments": "{broken"}]}] * 2)
    made = cell.chat(ASK).json()["choices"][0]["message"]["tool_calls"][0]
    assert made["function"]["arguments"] == "{broken"
    got = cell.ask("POST", "/v1/messages", {"model": "m1", "max_tokens": 1, "messages": ASK})
    assert got.status in (200, 503)
    cell.session.close()
