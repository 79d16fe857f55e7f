"""The transcript tells what was new, once."""

from __future__ import annotations

from typing import Any


def test_a_run_writes_each_message_once(recording: Any, chat: Any) -> None:
    messages = [chat.system("the system prompt"), chat.user("the task")]
    for turn in range(30):
        recording.reply(recording.ask(chat.request(*messages)), chat.reply(chat.says(f"step {turn}")))
        messages += [chat.says(f"step {turn}"), chat.user(f"observation {turn}.")]
    text = recording.derived().transcript.decode()
    assert text.count("the system prompt") == 1
    assert text.count("observation 7.") == 1
    assert "=== exchange 2 lane-1 input items 3-4 of 4 ===" in text
    assert "=== exchange 30 lane-1 output status 200 provider complete ===" in text


def test_a_rewritten_history_is_told_from_where_it_differs(recording: Any, chat: Any) -> None:
    start = [chat.system("kept"), chat.user("old")]
    recording.reply(recording.ask(chat.request(*start)), chat.reply(chat.says("x")))
    recording.ask(chat.request(chat.system("kept"), chat.user("new")))
    text = recording.derived().transcript.decode()
    assert "=== exchange 2 lane-1 input items 2-2 of 2 ===" in text
    assert text.count('"kept"') == 1


def test_settings_are_told_when_they_change(recording: Any, chat: Any) -> None:
    recording.reply(recording.ask(chat.request(chat.user("a"), temperature=0)), chat.reply(chat.says("x")))
    recording.reply(recording.ask(chat.request(chat.user("a"), temperature=0)), chat.reply(chat.says("x")))
    recording.ask(chat.request(chat.user("a"), temperature=1))
    text = recording.derived().transcript.decode()
    assert (text.count('"temperature":0'), text.count('"temperature":1')) == (1, 1)


def test_an_error_stands_where_the_reply_would(recording: Any, chat: Any) -> None:
    recording.fail(recording.ask(chat.request(chat.user("a"))))
    assert '{"error":{"kind":"http_status","detail":"it failed"}}' in recording.derived().transcript.decode()
