"""Which exchanges belong together, which lane is main, and when that is decided."""

from __future__ import annotations

from typing import Any


def lanes(recording: Any) -> list[str]:
    return [row.lane for row in recording.rows if row.kind == "request"]


def test_the_lane_of_the_first_exchange_with_tools_is_main(recording: Any, chat: Any) -> None:
    title = recording.ask(chat.request(chat.user("a title, please"), tools=(), model="small"))
    recording.reply(title, chat.reply(chat.says("Title")))
    work = recording.ask(chat.request(chat.system("s"), chat.user("work")))
    recording.reply(work, chat.reply(chat.says("done")))
    recording.close()
    assert [(row["lane"], row["turn"], row["role"]) for row in recording.trace("turn")] == [
        ("lane-1", None, "side"),
        ("main", 0, "main"),
    ]


def test_without_tools_the_first_lane_is_main_once_it_asks_again(recording: Any, chat: Any) -> None:
    ask = [chat.user("work")]
    first = recording.ask(chat.request(*ask, tools=()))
    recording.reply(first, chat.reply(chat.says("one")))
    assert recording.trace() == [], "not decided yet, so nothing is said"
    recording.ask(chat.request(*ask, chat.says("one"), chat.user("more"), tools=()))
    assert [(row["lane"], row["turn"]) for row in recording.trace("turn")] == [("main", 0)]


def test_without_tools_the_only_exchange_is_main_when_the_record_ends(recording: Any, chat: Any) -> None:
    recording.reply(recording.ask(chat.request(chat.user("work"), tools=())), chat.reply(chat.says("one")))
    recording.close()
    assert [(row["lane"], row["turn"]) for row in recording.trace("turn")] == [("main", 0)]


def test_a_repeated_request_whose_first_try_failed_is_no_turn_of_its_own(recording: Any, chat: Any) -> None:
    ask = chat.request(chat.user("work"))
    recording.fail(recording.ask(ask))
    recording.reply(recording.ask(ask), chat.reply(chat.says("one")))
    recording.close()
    assert [row["turn"] for row in recording.trace("turn")] == [0]
    assert recording.trace("session_end")[0]["turns"] == 1


def test_a_conversation_keeps_its_lane_when_its_tools_change(recording: Any, chat: Any) -> None:
    start = [chat.system("s"), chat.user("work")]
    said = chat.says("", ("c1", "load", "{}"))
    recording.reply(recording.ask(chat.request(*start, tools=("load",))), chat.reply(said))
    recording.ask(chat.request(*start, said, chat.result("c1", "ok"), tools=("load", "bash")))
    assert lanes(recording) == ["lane-1", "lane-1"]
    [row] = recording.trace("tools_activated")
    assert (row["new"], row["already_active"], row["final"]) == (["bash"], ["load"], ["load", "bash"])


def test_a_conversation_keeps_its_lane_when_its_model_changes(recording: Any, chat: Any) -> None:
    start = [chat.system("s"), chat.user("work")]
    recording.reply(recording.ask(chat.request(*start)), chat.reply(chat.says("hm")))
    recording.ask(chat.request(*start, chat.says("hm"), chat.user("go on"), model="spare"))
    assert lanes(recording) == ["lane-1", "lane-1"]
    [row] = recording.trace("model_fallback")
    assert (row["source_model"], row["target_model"]) == ("m", "spare")


def test_concurrent_lanes_do_not_take_each_others_results(recording: Any, chat: Any) -> None:
    main, side = [chat.system("main"), chat.user("a")], [chat.system("side"), chat.user("b")]
    one, two = recording.ask(chat.request(*main)), recording.ask(chat.request(*side))
    calls = chat.says("", ("m1", "bash", "{}")), chat.says("", ("s1", "bash", "{}"))
    recording.reply(two, chat.reply(calls[1]))
    recording.reply(one, chat.reply(calls[0]))
    recording.ask(chat.request(*side, calls[1], chat.result("s1", "of side")))
    recording.ask(chat.request(*main, calls[0], chat.result("m1", "of main")))
    found = [(row["lane"], row["turn"], row["result_summary"]) for row in recording.trace("tool_call")]
    assert found == [("lane-2", None, "of side"), ("main", 0, "of main")]


def test_a_cell_that_varies_its_prompts_for_ever_does_not_make_lanes_for_ever(recording: Any, chat: Any) -> None:
    for number in range(600):
        recording.ask(chat.request(chat.system(f"{number}"), chat.user("x")))
    assert len(set(lanes(recording))) == 512


def test_known_tokens_are_those_of_a_request_that_continues(recording: Any, chat: Any) -> None:
    from cells.recording.protocols import read_request

    start = [chat.user("work")]
    usage = {"prompt_tokens": 90, "completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 5}}
    recording.reply(recording.ask(chat.request(*start)), chat.reply(chat.says("hm"), usage=usage))
    import json

    def known(*messages: Any) -> int | None:
        view = read_request("openai-chat", json.dumps(chat.request(*messages)).encode())
        found: int | None = recording.book.place(view).known_tokens
        return found

    assert known(*start, chat.says("hm"), chat.user("more")) == 97
    assert known(chat.user("something new")) is None
