"""ATIF: the trace of a played attempt, and rows made here for what it does not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cells.errors import EvidenceError
from scoring.interop.atif import trajectory
from tests.scoring.interop.refusals import FILES

PLAYED = [json.loads(line) for line in (FILES / "atif/trace.jsonl").read_bytes().splitlines()]


def exported(rows: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    return trajectory(rows, **({"harness": "reference", "version": "1", "session": "a001"} | facts))


def turn(number: int, wire: int, lane: str = "main", **fields: Any) -> dict[str, Any]:
    """A turn row; its usage is unknown."""
    usage = dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "model"))
    place = {"v": 1, "event": "turn", "turn": number if lane == "main" else None, "lane": lane, "wire": wire}
    return usage | place | {"finish": "stop", "text_chars": 3, "t_mono_s": float(wire)} | fields


def call(wire: int, ordinal: int = 0, **fields: Any) -> dict[str, Any]:
    """An answered call of the exchange `wire`."""
    made = {"v": 1, "event": "tool_call", "called_in": wire, "ordinal": ordinal, "wire": wire + 1, "lane": "main"}
    made |= {"tool_name": "bash", "call_id": "c", "arguments": '{"a": 1}', "arguments_truncated": False}
    made |= {"args_sha256": "sha256:0", "result_summary": "out", "output_truncated": False, "output_chars": 3}
    return made | {"output_sha256": "sha256:1", "is_error": None, "exit_status": 0} | fields


def start(wire: int, ordinal: int = 0, **fields: Any) -> dict[str, Any]:
    """A call that was asked for."""
    made = {"v": 1, "event": "tool_start", "wire": wire, "ordinal": ordinal, "lane": "main"}
    return made | {"tool_name": "bash", "call_id": "c"} | fields


def test_a_played_attempt_is_one_step_an_exchange_with_the_totals_of_its_turns() -> None:
    document = exported(PLAYED)
    turns = [row for row in PLAYED if row["event"] == "turn"]
    assert (document["schema_version"], document["session_id"]) == ("ATIF-v1.8", "a001")
    assert document["agent"] == {"name": "reference", "version": "1", "model_name": "scripted"}
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(turns) + 1))
    totals = document["final_metrics"]
    assert totals["total_prompt_tokens"] == sum(row["prompt_tokens"] for row in turns)
    assert (totals["total_steps"], "total_cost_usd" in totals) == (len(turns), False)
    first = document["steps"][0]
    assert first["tool_calls"][0]["arguments"] == {"path": "settings.py"}
    (result,) = first["observation"]["results"]
    assert (result["source_call_id"], result["extra"]["output_truncated"]) == ("call_1_0", True)


def test_what_the_trace_does_not_know_is_left_out() -> None:
    document = exported([turn(0, 1)], version=None)
    (step,) = document["steps"]
    assert not {"metrics", "timestamp", "model_name", "tool_calls", "observation"} & step.keys()
    assert (step["message"], step["extra"]["text_chars"]) == ("", 3)
    assert document["final_metrics"] == {"total_steps": 1}
    assert document["agent"] == {"name": "reference", "version": "unknown"}


def test_a_total_of_which_one_part_is_unknown_is_left_out() -> None:
    rows = [turn(0, 1, prompt_tokens=4, completion_tokens=1), turn(1, 2, completion_tokens=1)]
    assert exported(rows)["final_metrics"] == {"total_completion_tokens": 2, "total_steps": 2}


def test_a_call_without_a_result_has_no_observation() -> None:
    (step,) = exported([turn(0, 1), start(1), start(1, 1, call_id=None)])["steps"]
    assert [made["tool_call_id"] for made in step["tool_calls"]] == ["c", "1.1"]
    assert [made["arguments"] for made in step["tool_calls"]] == [{}, {}]
    assert "observation" not in step


@pytest.mark.parametrize(
    ("arguments", "truncated"), [("not json", False), ("[1]", False), ('{"a": 1}', True), ("[" * 200, False)]
)
def test_arguments_that_are_no_whole_object_stay_text(arguments: str, truncated: bool) -> None:
    rows = [turn(0, 1), start(1), call(1, arguments=arguments, arguments_truncated=truncated)]
    (made,) = exported(rows)["steps"][0]["tool_calls"]
    assert (made["arguments"], made["extra"]["arguments_text"]) == ({}, arguments)
    assert made["extra"].get("arguments_truncated", False) is truncated


def test_other_lanes_are_trajectories_of_their_own_and_other_events_are_counted() -> None:
    rows = [turn(-1, 1, "l2"), turn(0, 2), turn(-1, 3, "l2"), {"v": 1, "event": "api_error"}]
    document = exported(rows)
    (side,) = document["subagent_trajectories"]
    assert (document["trajectory_id"], side["trajectory_id"]) == ("main", "l2")
    assert [step["step_id"] for step in side["steps"]] == [1, 2]
    assert document["extra"]["events"] == {"api_error": 1}


def test_a_trace_without_a_turn_or_of_another_version_is_refused() -> None:
    with pytest.raises(EvidenceError, match="main"):
        exported([row for row in PLAYED if row["event"] != "turn"])
    with pytest.raises(EvidenceError, match="v is 2"):
        exported([turn(0, 1, v=2)])
