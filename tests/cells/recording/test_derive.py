"""What is derived is a function of the wire: the same bytes again, and of a prefix of the rows a prefix of the
bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells.errors import EvidenceError
from cells.recording.blobs import read_pack
from cells.recording.derive import derive
from cells.recording.wire import RequestRow

Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "reply", "reply", "fail", "segment", "compact", "tools"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=40,
)


class Conversations:
    """Three conversations that go on, in whatever order the steps say."""

    def __init__(self, recording: Any, chat: Any) -> None:
        self.recording, self.chat = recording, chat
        self.messages = [[chat.system(f"of {n}"), chat.user("go")] for n in range(3)]
        self.tools: list[tuple[str, ...]] = [(), ("bash",), ("bash", "read")]
        self.under_way: list[tuple[int, int]] = []
        self.segment = 1

    def take(self, step: Step) -> None:
        kind, which, number = step
        if kind == "ask":
            exchange = self.recording.ask(self.chat.request(*self.messages[which], tools=self.tools[which]))
            self.under_way.append((exchange, which))
        elif kind == "segment":
            self.segment += 1
            self.recording.open(self.segment)
        elif kind == "compact":
            self.messages[which] = self.messages[which][:2]
        elif kind == "tools":
            self.tools[which] = (*self.tools[which], f"tool{number}")
        elif self.under_way:
            exchange, of = self.under_way.pop(number % len(self.under_way))
            if kind == "fail":
                self.recording.fail(exchange)
            else:
                self._reply(exchange, of, number)

    def _reply(self, exchange: int, of: int, number: int) -> None:
        calls = [(f"c{exchange}.{n}", "bash", json.dumps({"n": n})) for n in range(number)]
        said = self.chat.says(f"reply {exchange}", *calls)
        usage = {"prompt_tokens": 10, "completion_tokens": number} if number else None
        finish = "length" if number == 3 else "stop"
        self.recording.reply(exchange, self.chat.reply(said, finish, usage), complete=number != 1)
        results = [self.chat.result(key, f"result of {key}") for key, _, _ in calls]
        self.messages[of] = [*self.messages[of], said, *results]


@settings(max_examples=120, deadline=None)
@given(steps)
def test_a_prefix_of_the_rows_gives_a_prefix_of_the_bytes(new_recording: Any, chat: Any, taken: list[Step]) -> None:
    recording = new_recording()
    recording.open(model="m")
    conversations = Conversations(recording, chat)
    for step in taken:
        conversations.take(step)
    recording.close()
    body_of = read_pack(bytes(recording.pack)).body
    whole = derive(tuple(recording.rows), body_of)
    assert derive(tuple(recording.rows), body_of) == whole
    for length in range(0, len(recording.rows), 3):
        part = derive(tuple(recording.rows[:length]), body_of)
        assert whole.trace.startswith(part.trace)
        assert whole.transcript.startswith(part.transcript)
        assert whole.usage.startswith(part.usage)
    turns = [row["turn"] for row in whole.rows if row["event"] == "turn" and row["lane"] == "main"]
    assert turns == list(range(len(turns)))


def test_a_row_that_claims_another_lane_is_refused(recording: Any, chat: Any) -> None:
    recording.ask(chat.request(chat.user("x")))
    [row] = recording.rows
    assert isinstance(row, RequestRow)
    recording.rows = [row.model_copy(update={"lane": "lane-7"})]
    with pytest.raises(EvidenceError, match="says lane-7 #0; its rows decide lane-1 #0"):
        recording.derived()
