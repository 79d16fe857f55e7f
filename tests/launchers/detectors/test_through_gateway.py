"""Detectors in a running cell: decided before the next request is sent on, on the record, and proved afterwards."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cells.attempt import SealedAttempt
from cells.audit.attempt import audit_attempt
from cells.recording.blobs import PACK, read_pack
from cells.recording.wire import RequestRow, ResponseRow, read_wire

LEDGER, DEBUG, MODEL_CALLS = (
    "live/adaptive_control_ledger.jsonl",
    "live/adaptive_debug.jsonl",
    "live/llm_hurdle_detector.jsonl",
)
CALL: dict[str, Any] = {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
DONE: dict[str, Any] = {"content": "done"}


def section(**more: Any) -> dict[str, Any]:
    return {"action": "note", "warmup": 0, "cadence": 1, "budget": 1, "settings": {}} | more


def sent_bodies(sealed: SealedAttempt) -> list[tuple[Any, Any]]:
    """(as the cell sent it, as it was sent on) of every model request."""
    wire = read_wire((sealed.root / "live/wire.jsonl").read_bytes())
    pack = read_pack((sealed.root / "live" / PACK).read_bytes())
    rows = [row for row in wire.rows if isinstance(row, RequestRow) and row.body is not None]
    return [
        (json.loads(pack.body(row.body)), json.loads(pack.body(row.sent or row.body)))  # type: ignore[arg-type]
        for row in rows
    ]


def test_a_note_is_sent_on_after_the_results_and_again_later_and_the_wire_has_both(bench: Any) -> None:
    cell = bench.cell([CALL] * 4 + [DONE], {"duplicate_call": section()})
    cell.turns(5)
    sealed, _ = cell.seal()
    bodies = sent_bodies(sealed)
    assert [original == sent for original, sent in bodies] == [True, True, True, False, False]
    for original, sent in bodies[3:]:
        (note,) = [one for one in sent["messages"] if one not in original["messages"]]
        assert note["role"] == "user"
        assert note["content"].startswith('You have called "bash" 3 times')
    assert bodies[3][1]["messages"][-1]["role"] == "user"
    assert cell.messages[-1]["content"] == "done"
    audit = audit_attempt(sealed.root, "a")
    assert audit.ok, audit.violations
    assert (audit.decisions, audit.recomputed, audit.actions) == (4, 3, {"note": 1})


def test_every_decision_names_the_prefix_that_the_trace_had_before_the_request_was_sent_on(bench: Any) -> None:
    cell = bench.cell([CALL] * 3 + [DONE], {"no_write": section(settings={"turns": 2})})
    cell.turns(4)
    sealed, _ = cell.seal()
    trace = (sealed.root / "live/trace.jsonl").read_bytes()
    for row in cell.rows(LEDGER):
        seen = [json.loads(line) for line in trace[: row["prefix"]["length"]].splitlines()]
        assert max(one["turn"] for one in seen if one["turn"] is not None) == row["turn"]
        assert [one["turn"] for one in seen if one["event"] == "tool_call"] == list(range(row["turn"] + 1))


def test_a_stop_ends_the_run_before_the_next_request_reaches_the_model(bench: Any) -> None:
    cell = bench.cell([CALL] * 9, {"duplicate_call": section(action="stop")})
    cell.turns(9)
    assert cell.statuses == [200, 200, 200, 403]
    sealed, totals = cell.seal()
    assert totals.stop_requested
    assert totals.turns == 3
    audit = audit_attempt(sealed.root, "a")
    assert audit.ok, audit.violations
    assert audit.actions == {"stop": 1}


def test_a_model_backed_detector_asks_on_the_wire_in_its_own_lane_and_is_charged_to_the_cell(bench: Any) -> None:
    yes = {"lane": "detector", "content": "YES", "usage": {"input": 70, "output": 1}, "expect": "tool"}
    usage = {"usage": {"input": 10, "output": 2}}
    cell = bench.cell([CALL | usage, DONE | usage, yes], {"model_hurdle": section(settings={"hurdle": "stuck"})})
    cell.turns(2)
    sealed, totals = cell.seal()
    assert (totals.turns, totals.requests, totals.input_tokens, totals.output_tokens) == (2, 3, 90, 5)
    wire = read_wire((sealed.root / "live/wire.jsonl").read_bytes())
    (asked,) = [row for row in wire.rows if isinstance(row, RequestRow) and row.lane == "detector"]
    (answered,) = [row for row in wire.rows if isinstance(row, ResponseRow) and row.exchange == asked.exchange]
    assert answered.usage is not None and answered.usage.input == 70
    (call,) = cell.rows(MODEL_CALLS)
    assert (call["role"], call["result"], call["reply"]) == (
        "detector",
        "note",
        {"exchange": asked.exchange, "error": None, "text": "YES"},
    )
    assert "tool_calls" not in json.dumps(cell.rows("live/trace.jsonl")[-1])
    assert not [row for row in cell.rows("live/trace.jsonl") if row["lane"] == "detector"]
    audit = audit_attempt(sealed.root, "a")
    assert audit.ok, audit.violations
    assert (audit.recomputed, audit.actions) == (1, {"note": 1})


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"lane": "detector", "error": {"status": 400}}, "status 400"),
        ({"lane": "detector", "content": "x", "expect": "no such text"}, "script_mismatch"),
        (None, "script_exhausted"),
    ],
)
def test_a_model_that_fails_a_detector_does_not_fail_the_cell(bench: Any, line: Any, error: str) -> None:
    script = [CALL, DONE] + ([line] if line else [])
    cell = bench.cell(script, {"model_hurdle": section()})
    cell.turns(2)
    assert cell.statuses == [200, 200]
    sealed, totals = cell.seal()
    assert totals.failure is None
    (call,) = cell.rows(MODEL_CALLS)
    assert (call["reply"]["error"], call["result"]) == (error, None)
    audit = audit_attempt(sealed.root, "a")
    assert audit.ok, audit.violations


def test_a_limit_of_the_cell_holds_for_detectors_too(bench: Any) -> None:
    limits = replace(_limits(bench), requests=1)
    cell = bench.cell([CALL, DONE, {"lane": "detector", "content": "YES"}], {"model_hurdle": section()}, limits)
    cell.turns(2)
    assert cell.statuses == [200, 403]
    (call,) = cell.rows(MODEL_CALLS)
    assert call["reply"]["error"] == "a limit of the cell is reached"
    cell.seal()


def _limits(bench: Any) -> Any:
    from inspect import signature

    return signature(bench.cell).parameters["limits"].default


def test_a_child_that_is_killed_is_recorded_and_the_run_goes_on(bench: Any) -> None:
    cell = bench.cell([CALL] * 3 + [DONE], {"duplicate_call": section()})
    cell.turns(1)
    _kill_children_of(bench.gateway.pid)
    cell.turns(3)
    assert cell.statuses == [200] * 4
    whys = [row["why"] for row in cell.rows(LEDGER)]
    assert whys == ["child_gone: it ended"] * 3
    sealed, _ = cell.seal()
    assert audit_attempt(sealed.root, "a").ok


def _kill_children_of(pid: int) -> None:
    """Kill what the gateway started (detector children) and wait until it is dead."""
    import os
    import signal

    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children
    for child in children:
        os.killpg(int(child), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(_has_program(child) for child in children):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def _has_program(pid: str) -> bool:
    """False for a process that is gone or only waits to be reaped."""
    import os

    try:
        return bool(os.readlink(f"/proc/{pid}/exe"))
    except FileNotFoundError:
        return False


def test_watched_cells_that_are_opened_at_the_same_moment_have_doors_of_their_own(bench: Any) -> None:
    with ThreadPoolExecutor(4) as pool:
        cells = list(pool.map(lambda _: bench.cell([DONE], {"no_write": section()}), range(4)))
    assert len({cell.session.socket_dir for cell in cells}) == 4
    for cell in cells:
        cell.turns(1)
        assert audit_attempt(cell.seal()[0].root, "a").ok


def test_unknown_detectors_are_refused_when_the_cell_is_opened(bench: Any) -> None:
    with pytest.raises(Exception, match="there are context_pressure"):
        bench.cell([DONE], {"no_such": section()})
