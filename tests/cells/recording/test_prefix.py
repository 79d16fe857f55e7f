"""Prefixes of the trace: they end at a row, hold nothing later, and can be recomputed by anybody."""

from __future__ import annotations

from typing import Any

import pytest

from cells.errors import EvidenceError
from cells.evidence.digest import digest_bytes
from cells.recording.prefix import GrowingPrefix, holds_nothing_after, prefix_at, prefix_through
from cells.recording.wire import Note


def three_turns(recording: Any, chat: Any) -> bytes:
    recording.open()
    messages = [chat.user("x")]
    note = Note(id="note-1", digest="sha256:0", turn=0, first=True, chars=1)
    for turn in range(3):
        said = chat.says("", (f"c{turn}", "bash", "{}"))
        asked = recording.ask(chat.request(*messages), notes=(note,) if turn == 1 else ())
        recording.reply(asked, chat.reply(said))
        messages += [said, chat.result(f"c{turn}", f"result {turn}")]
    recording.ask(chat.request(*messages))
    recording.close()
    return bytes(recording.derived().trace)


def test_the_prefix_through_a_turn_has_its_results_and_nothing_later(recording: Any, chat: Any) -> None:
    trace = three_turns(recording, chat)
    for turn in range(3):
        prefix = prefix_through(trace, turn)
        assert trace.startswith(trace[: prefix.length])
        assert prefix.digest == digest_bytes(trace[: prefix.length])
        assert [row["turn"] for row in prefix.rows if row["event"] == "tool_call"] == list(range(turn + 1))
        assert holds_nothing_after(prefix, turn)
        assert not holds_nothing_after(prefix, turn - 1)
    assert [row["event"] for row in prefix_through(trace, 0).rows].count("injection") == 0
    assert [row["event"] for row in prefix_through(trace, 1).rows].count("injection") == 1


def test_a_prefix_is_recomputed_from_its_length(recording: Any, chat: Any) -> None:
    trace = three_turns(recording, chat)
    growing = GrowingPrefix()
    for line in trace.splitlines(keepends=True):
        growing.add(line)
        found = prefix_at(trace, growing.length)
        assert (found.length, found.digest) == (growing.length, growing.digest)


def test_a_prefix_that_ends_inside_a_row_is_refused(recording: Any, chat: Any) -> None:
    trace = three_turns(recording, chat)
    for length in (1, len(trace) - 1, len(trace) + 1, -1):
        with pytest.raises(EvidenceError, match="no row ends at byte"):
            prefix_at(trace, length)


def test_a_torn_tail_is_not_part_of_a_prefix(recording: Any, chat: Any) -> None:
    trace = three_turns(recording, chat)
    prefix = prefix_through(trace[:-5], 99)
    assert trace[: prefix.length].endswith(b"\n")
    assert prefix.length < len(trace) - 5
