"""The state projection: the trace alone decides it; a rewind changes the view and deletes nothing."""

from __future__ import annotations

from typing import Any

from cells.recording.state import project_state, state_bytes

START = {"event": "session_start", "turn": None, "edit_format": "diff", "active_tools": ["bash"], "model": "secretive"}


def event(name: str, turn: int | None = None, **fields: Any) -> dict[str, Any]:
    return {"event": name, "turn": turn, "lane": "main", **fields}


def test_the_fields_of_the_table_and_no_others() -> None:
    rows = [
        START,
        event("plan_mode_enter", 0),
        event("stream_rule_triggered", 0, rule="no-rm", body="never shown", tool="bash"),
        event("todos", 0, todos=["a"]),
        event("todos", 1, todos=["b"]),
        event("tools_activated", 1, final=["bash", "read"], new=["read"]),
        event("compaction", 1, method="observed", summary="never shown", items_before=9, items_after=2),
        event("plan_mode_exit", 1, plan_chars=5),
        event("hook", 1, command="never shown"),
        event("turn", 1, prompt_tokens=3),
    ]
    state = project_state(rows)
    assert state["state"] == {"phase": "work"}
    assert state["meta"] == {
        "edit_format": "diff",
        "event_count": 10,
        "projected_event_count": 8,
        "active_event_count": 10,
    }
    assert state["gates"] == [{"event": "stream_rule_triggered", "turn": 0, "rule": "no-rm", "tool": "bash"}]
    assert (state["todos"], state["tools"]) == (["b"], ["bash", "read"])
    assert state["last_compaction"]["items_after"] == 2
    assert b"never shown" not in state_bytes(rows)
    assert b"secretive" not in state_bytes(rows)


def test_a_rewind_selects_an_earlier_branch() -> None:
    rows = [
        START,
        event("todos", 0, todos=["kept"]),
        event("todos", 2, todos=["left"]),
        event("rewind", 3, source_turn=3, target_turn=1, reason="wrong way", report="it was wrong", kind="model"),
        event("tool_call", 4),
    ]
    state = project_state(rows)
    assert state["todos"] == ["kept"]
    assert state["last_rewind"]["target_turn"] == 1
    assert state["rewind_report"] == "it was wrong"
    assert (state["meta"]["event_count"], state["meta"]["active_event_count"]) == (5, 4)


def test_the_same_trace_gives_the_same_bytes(recording: Any, chat: Any) -> None:
    recording.open(edit_format=None)
    recording.reply(recording.ask(chat.request(chat.user("x"))), chat.reply(chat.says("y")))
    recording.close()
    rows = recording.derived().rows
    assert state_bytes(rows) == state_bytes([dict(reversed(row.items())) for row in rows])
    assert state_bytes([]).startswith(b"{")
