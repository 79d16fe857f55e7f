"""Notes and stops between turns: decided before the next request is passed on, sent again in every later one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.evidence.digest import digest_bytes
from cells.recording.blobs import PACK, read_pack
from cells.recording.derive import derive
from cells.recording.prefix import holds_nothing_after, prefix_at
from cells.recording.protocols import read_request
from cells.recording.wire import RequestRow, read_wire
from launchers.gateway.contract import GatewayCell
from launchers.gateway.decisions import CompletedTurn, Decision
from launchers.gateway.notes import Notes, items_of
from launchers.gateway.sessions import Sessions

NOTE = 'Run the "tests" first.'


@dataclass
class Watcher:
    """Decides from a list; keeps what it was shown."""

    decisions: dict[int, Decision]
    delay: Callable[[], Awaitable[None]] | None = None
    shown: list[CompletedTurn] = field(default_factory=list)
    closed: bool = False

    async def on_turn_complete(self, turn: CompletedTurn) -> Decision:
        self.shown.append(turn)
        if self.delay is not None:
            await self.delay()
        return self.decisions.get(turn.turn, Decision())

    async def close(self) -> None:
        self.closed = True


@dataclass
class Harness:
    """A tool loop over a unix socket, three requests long."""

    root: Path
    client: aiohttp.ClientSession
    messages: list[dict[str, Any]] = field(default_factory=lambda: [{"role": "user", "content": "go"}])
    statuses: list[int] = field(default_factory=list)

    async def turn(self) -> None:
        tools = [{"type": "function", "function": {"name": "bash"}}]
        body = {"model": "m1", "messages": self.messages, "tools": tools}
        async with self.client.post("http://m/v1/chat/completions", json=body) as answer:
            self.statuses.append(answer.status)
            if answer.status == 200:
                said = (await answer.json())["choices"][0]["message"]
                self.messages.append(said)
                for call in said["tool_calls"]:
                    self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "result"})

    def requests(self) -> list[RequestRow]:
        rows = read_wire((self.root / "live/wire.jsonl").read_bytes()).rows
        return [row for row in rows if isinstance(row, RequestRow)]

    def sent(self, row: RequestRow) -> list[Any]:
        pack = read_pack((self.root / "live" / PACK).read_bytes())
        reference = row.sent or row.body
        assert reference is not None
        return list(json.loads(pack.body(reference))["messages"])


def run(
    tmp_path: Path, watcher: Watcher, turns: int, play: Callable[[Harness], Awaitable[None]] | None = None
) -> Harness:
    """Play a cell with a watcher in this process, over a real socket."""
    root = tmp_path / "a"
    (root / "live").mkdir(parents=True)
    script = tmp_path / "s.jsonl"
    script.write_text('{"content": "x", "tool_calls": [{"name": "bash", "arguments": {}}], "repeat": true}\n')

    async def watch(_: Any) -> Watcher:
        return watcher

    async def all_of_it() -> Harness:
        with ThreadPoolExecutor(2) as executor:
            async with aiohttp.ClientSession() as provider_client:
                sessions = Sessions(tmp_path, {}, provider_client, executor, watch=watch)
                limits: Any = json.loads(_LIMITS)
                model = {"name": "f", "provider": "scripted", "model": "m1"}
                cell = GatewayCell("k", root, model, _cell_limits(limits), script=script, detectors={"d": {}})
                path = await sessions.open(cell) / "model.sock"
                async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as client:
                    harness = Harness(root, client)
                    await (play(harness) if play else _turns(harness, turns))
                await sessions.close("k", None)
                return harness

    return asyncio.run(all_of_it())


async def _turns(harness: Harness, turns: int) -> None:
    for _ in range(turns):
        await harness.turn()


_LIMITS = """{"clock": "active", "wall_s": 9, "turns": null, "requests": null, "total_tokens": null, "cost": null,
"memory_mb": 1, "cpus": 1, "disk_mb": 1, "disk_backing": "memory", "pids": 1, "verify_s": 1}"""


def _cell_limits(fields: dict[str, Any]) -> Any:
    from cells.design.cell import CellLimits

    return CellLimits(**fields)


def derived_alike(root: Path) -> bool:
    again = derive(
        read_wire((root / "live/wire.jsonl").read_bytes()).rows, read_pack((root / "live" / PACK).read_bytes()).body
    )
    return (root / "live/trace.jsonl").read_bytes() == again.trace


def test_a_note_stands_after_the_tool_results_and_in_every_later_request(tmp_path: Path) -> None:
    harness = run(tmp_path, Watcher({0: Decision("note", NOTE)}), 4)
    rows = harness.requests()
    assert [[note.first for note in row.notes] for row in rows] == [[], [True], [False], [False]]
    assert rows[0].sent is None
    for row in rows[1:]:
        messages = harness.sent(row)
        assert messages[3] == {"role": "user", "content": NOTE}
        assert messages[2]["role"] == "tool"
    trace = [json.loads(line) for line in (tmp_path / "a/live/trace.jsonl").read_text().splitlines()]
    assert [(row["turn"], row["wire"]) for row in trace if row["event"] == "injection"] == [(0, 2)]
    assert derived_alike(tmp_path / "a")


def test_several_notes_keep_their_places(tmp_path: Path) -> None:
    decisions = {0: Decision("note", "first"), 1: Decision("note", "second")}
    harness = run(tmp_path, Watcher(decisions), 4)
    texts = [item["content"] for item in harness.sent(harness.requests()[3]) if item["role"] == "user"]
    assert texts == ["go", "first", "second"]


def test_a_note_whose_place_is_gone_is_not_sent(tmp_path: Path) -> None:
    async def play(harness: Harness) -> None:
        await _turns(harness, 2)
        harness.messages[:] = [{"role": "user", "content": "a summary"}]
        await harness.turn()

    harness = run(tmp_path, Watcher({0: Decision("note", NOTE)}), 0, play)
    assert [len(row.notes) for row in harness.requests()] == [0, 1, 0]


def test_a_decision_sees_the_turn_whole_and_nothing_later(tmp_path: Path) -> None:
    watcher = Watcher({})
    run(tmp_path, watcher, 4)
    trace = (tmp_path / "a/live/trace.jsonl").read_bytes()
    assert [turn.turn for turn in watcher.shown] == [0, 1, 2]
    for turn in watcher.shown:
        assert [row["event"] for row in turn.rows if row["turn"] == turn.turn] == ["turn", "tool_start", "tool_call"]
        prefix = prefix_at(trace, turn.prefix_length)
        assert prefix.digest == turn.prefix_sha256
        assert holds_nothing_after(prefix, turn.turn)
    assert watcher.closed


def test_a_repeated_request_is_decided_once(tmp_path: Path) -> None:
    async def play(harness: Harness) -> None:
        await harness.turn()
        again = list(harness.messages)
        await harness.turn()
        harness.messages[:] = again
        await harness.turn()

    watcher = Watcher({0: Decision("note", NOTE)})
    run(tmp_path, watcher, 0, play)
    assert [turn.turn for turn in watcher.shown] == [0, 1]


def test_a_stop_refuses_this_request_and_all_later_ones(tmp_path: Path) -> None:
    harness = run(tmp_path, Watcher({1: Decision("stop")}), 5)
    assert harness.statuses == [200, 200, 403, 403, 403]


def test_a_watcher_that_fails_does_not_end_the_harness(tmp_path: Path) -> None:
    async def fail() -> None:
        raise RuntimeError("the detector is gone")

    harness = run(tmp_path, Watcher({0: Decision("stop")}, fail), 3)
    assert harness.statuses == [200, 200, 200]


def test_what_else_arrives_during_a_decision_is_recorded_after_it(tmp_path: Path) -> None:
    async def play(harness: Harness) -> None:
        await harness.turn()
        side = {"model": "m1", "messages": [{"role": "user", "content": "a side call"}]}
        await asyncio.gather(harness.turn(), harness.client.post("http://m/v1/chat/completions", json=side))

    async def slow() -> None:
        await asyncio.sleep(0.05)

    run(tmp_path, Watcher({}, slow), 0, play)
    assert derived_alike(tmp_path / "a")


def chat_request(items: list[Any], indent: int | None) -> bytes:
    return json.dumps({"a": [1, {"messages": [3]}], "messages": items, "z": "],[{"}, indent=indent).encode()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values, max_size=6), st.sampled_from([None, 0, 2]))
def test_the_elements_of_a_list_are_found_in_its_bytes(items: list[Any], indent: int | None) -> None:
    document = chat_request(items, indent)
    spans = items_of(document, b'"messages"')
    assert [json.loads(document[start:end]) for start, end in spans] == items


def test_of_a_name_given_twice_the_last_list_counts() -> None:
    document = b'{"messages": [1], "messages": [2, 3]}'
    assert [document[start:end] for start, end in items_of(document, b'"messages"')] == [b"2", b"3"]


def test_everything_but_the_note_keeps_its_bytes() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "é"}
    body = json.dumps({"messages": [{"role": "user", "content": [result]}], "model": "m"}, indent=1).encode()
    view = read_request("anthropic-messages", body)
    notes = Notes()
    notes.add(NOTE, 3, view)
    sent, named = notes.apply(body, view, 3)
    block = b',{"type":"text","text":' + json.dumps(NOTE).encode() + b"}"
    assert sent.replace(block, b"") == body
    assert json.loads(sent)["messages"][0]["content"][-1] == {"type": "text", "text": NOTE}
    assert named[0].digest == digest_bytes(NOTE.encode())


@pytest.mark.parametrize("content", ["text only", []])
def test_a_message_without_blocks_is_followed_by_one_of_its_own(content: Any) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    view = read_request("anthropic-messages", body)
    notes = Notes()
    notes.add(NOTE, 0, view)
    sent, _ = notes.apply(body, view, 0)
    assert json.loads(sent)["messages"][1]["content"] == [{"type": "text", "text": NOTE}]


def test_a_note_in_the_responses_protocol_is_an_input_item() -> None:
    body = json.dumps({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}).encode()
    view = read_request("openai-responses", body)
    notes = Notes()
    notes.add(NOTE, 0, view)
    sent, _ = notes.apply(body, view, 0)
    assert json.loads(sent)["input"][1]["content"] == [{"type": "input_text", "text": NOTE}]


def test_a_request_whose_input_is_a_text_takes_no_note() -> None:
    body = b'{"input": "just text"}'
    view = read_request("openai-responses", body)
    notes = Notes()
    notes.add(NOTE, 0, view)
    assert notes.apply(body, view, 0) == (body, ())
