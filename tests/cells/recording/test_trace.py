"""The trace: events of the saved-files contract, complete when their turn is complete, never guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cells.recording.wire import Note

USAGE = {"prompt_tokens": 8, "prompt_tokens_details": {"cached_tokens": 6}, "completion_tokens": 2}


def test_every_row_has_the_envelope_and_the_sequence_has_no_gap(recording: Any, chat: Any) -> None:
    recording.open(model="m", thinking_level="low")
    said = chat.says("I look", ("c", "bash", "{}"))
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(said, usage=USAGE))
    recording.fail(recording.ask(chat.request(chat.user("x"), said, chat.result("c", "y"))))
    recording.close("stop")
    rows = recording.trace()
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        assert {"v", "seq", "event", "segment", "turn", "lane", "t_mono_s", "wire"} <= row.keys()
    events = [row["event"] for row in rows]
    assert events == ["session_start", "turn", "tool_start", "tool_call", "api_error", "session_end"]
    assert rows[0]["thinking_level"] == "low"
    assert rows[-1]["finish_reason"] == "stop"
    assert json.loads(recording.derived().trace.splitlines()[1]) == rows[1]


def test_a_turn_has_the_providers_counts_and_nothing_else(recording: Any, chat: Any) -> None:
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(chat.says("a"), usage=USAGE))
    recording.reply(recording.ask(chat.request(chat.user("y"))), chat.reply(chat.says("b")))
    one, two = recording.trace("turn")
    assert (one["prompt_tokens"], one["cached_tokens"], one["hit_ratio"], one["completion_tokens"]) == (8, 6, 0.75, 2)
    assert (two["prompt_tokens"], two["cached_tokens"], two["hit_ratio"], two["completion_tokens"]) == (None,) * 4


def test_several_calls_of_one_turn_each_have_their_ordinal_and_result(recording: Any, chat: Any) -> None:
    said = chat.says("", ("a", "bash", '{"n":1}'), ("b", "read", '{"n":2}'))
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(said))
    assert recording.trace("tool_call") == [], "a result is known when the next request brings it"
    results = [chat.result("b", "second"), chat.result("a", "first")]
    recording.ask(chat.request(chat.user("x"), said, *results))
    found = [
        (row["ordinal"], row["tool_name"], row["result_summary"], row["wire"]) for row in recording.trace("tool_call")
    ]
    assert found == [(1, "read", "second", 2), (0, "bash", "first", 2)]


def test_calls_without_ids_are_answered_in_order(recording: Any, chat: Any) -> None:
    said = chat.says("", (None, "bash", "1"), (None, "bash", "2"))
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(said))
    results = [{"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]
    recording.ask(chat.request(chat.user("x"), said, *results))
    assert [(row["arguments"], row["result_summary"]) for row in recording.trace("tool_call")] == [
        ("1", "one"),
        ("2", "two"),
    ]


def test_a_result_that_answers_no_call_is_no_tool_call(recording: Any, chat: Any) -> None:
    recording.ask(chat.request(chat.user("x"), chat.says("", ("z", "bash", "{}")), chat.result("z", "forged")))
    assert recording.trace("tool_call") == []


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"exit_code": 3, "output": "no"}', 3),
        ('{"returncode": 0}', 0),
        ("exit code: 3", None),
        ('{"exit_code": "3"}', None),
        ('{"exit_code": true}', None),
        ("<returncode>1</returncode>", None),
        ("{" * 2000, None),
    ],
)
def test_an_exit_status_comes_from_a_field_never_from_text(recording: Any, chat: Any, text: str, status: Any) -> None:
    said = chat.says("", ("a", "bash", "{}"))
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(said))
    recording.ask(chat.request(chat.user("x"), said, chat.result("a", text)))
    assert (
        recording.trace("tool_call")[0]["exit_status"] is status
        or recording.trace("tool_call")[0]["exit_status"] == status
    )


def test_long_arguments_and_results_are_capped_and_say_so(recording: Any, chat: Any) -> None:
    said = chat.says("", ("a", "write", "x" * 9000))
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(said))
    recording.ask(chat.request(chat.user("x"), said, chat.result("a", "y" * 9000)))
    [row] = recording.trace("tool_call")
    assert (len(row["arguments"]), row["arguments_truncated"]) == (4000, True)
    assert (len(row["result_summary"]), row["output_truncated"], row["output_chars"]) == (600, True, 9000)


def test_a_reply_cut_by_length_and_its_follow_up_are_counted(recording: Any, chat: Any) -> None:
    start = [chat.user("x")]
    recording.reply(recording.ask(chat.request(*start)), chat.reply(chat.says("a"), "length", USAGE))
    again = [*start, chat.says("a"), chat.user("go on")]
    recording.reply(recording.ask(chat.request(*again)), chat.reply(chat.says("b"), "length", USAGE))
    recording.ask(chat.request(*again, chat.says("b"), chat.user("go on")))
    found = [(row["attempt"], row["completion_tokens"]) for row in recording.trace("length_continue")]
    assert found == [(1, 2), (2, 2)]


def test_a_shorter_history_is_a_compaction(recording: Any, chat: Any) -> None:
    start = [chat.user("x"), chat.says("a"), chat.user("b"), chat.says("c"), chat.user("d")]
    recording.reply(recording.ask(chat.request(*start)), chat.reply(chat.says("e")))
    recording.ask(chat.request(chat.user("summary of all")))
    [row] = recording.trace("compaction")
    assert (row["method"], row["items_before"], row["items_after"]) == ("observed", 5, 1)


def test_a_note_is_an_injection_once(recording: Any, chat: Any) -> None:
    note = Note(id="note-1", digest="sha256:0", turn=0, first=True, chars=5)
    start = [chat.user("x")]
    recording.reply(recording.ask(chat.request(*start)), chat.reply(chat.says("a")))
    more = [*start, chat.says("a"), chat.user("b")]
    recording.reply(recording.ask(chat.request(*more), notes=(note,)), chat.reply(chat.says("c")))
    again = note.model_copy(update={"first": False})
    recording.ask(chat.request(*more, chat.says("c"), chat.user("d")), notes=(again,))
    [row] = recording.trace("injection")
    assert (row["turn"], row["note_id"], row["wire"]) == (0, "note-1", 2)


def test_calls_that_nobody_answered_are_told_at_the_end(recording: Any, chat: Any) -> None:
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(chat.says("", ("a", "bash", "{}"))))
    recording.close(None)
    [row] = recording.trace("turn_aborted")
    assert row["pending_calls"] == [{"call_id": "a", "tool_name": "bash", "called_in": 1}]


def test_a_lone_surrogate_from_a_model_is_a_line_of_json_all_the_same(recording: Any, chat: Any) -> None:
    said = chat.says("", ("a", "bash", "\ud800"))
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(said))
    recording.ask(chat.request(chat.user("x"), said, chat.result("a", "\udfff")))
    recording.close()
    derived = recording.derived()
    assert [json.loads(line) for line in derived.trace.splitlines()] == list(derived.rows)
    assert b"\\ud800" in derived.transcript
