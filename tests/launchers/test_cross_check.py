"""What a harness counts about itself, against what went over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from launchers.cross_check import compare
from launchers.harnesses import Claims, harness


def turn(lane: str = "main", calls: int | None = 1, tokens: int | None = 10) -> dict[str, Any]:
    return {"event": "turn", "lane": lane, "calls": calls, "prompt_tokens": tokens, "completion_tokens": 2}


TRACE = [{"event": "session_start"}, turn(), turn(calls=2), turn(lane="side"), {"event": "session_end"}]


def test_counts_that_agree_are_no_finding() -> None:
    assert compare(Claims(turns=2, tool_calls=3, input_tokens=20, output_tokens=4), TRACE) == []


def test_each_count_that_differs_is_a_finding_with_both_sides() -> None:
    assert compare(Claims(turns=3, tool_calls=3, input_tokens=19), TRACE) == [
        {"kind": "harness_record_differs", "field": "turns", "harness": 3, "wire": 2},
        {"kind": "harness_record_differs", "field": "input_tokens", "harness": 19, "wire": 20},
    ]


def test_what_either_side_does_not_know_is_not_compared() -> None:
    assert compare(Claims(), TRACE) == []
    assert compare(Claims(turns=1, input_tokens=10**9), [turn(tokens=None)]) == []


def test_a_record_that_cannot_be_read_is_said() -> None:
    assert compare(None, TRACE) == [{"kind": "harness_record_unreadable"}]


ROWS = [
    {"event": "session_start", "harness": "reference"},
    {"event": "turn", "tool_calls": 2, "usage": {"prompt_tokens": 7, "completion_tokens": 1}},
    {"event": "tool_call", "name": "bash"},
    {"event": "turn", "tool_calls": 1, "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
]


def claims(content: bytes | None) -> Claims | None:
    return harness("reference").claims(lambda name: content)


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_the_reference_harnesss_record_is_counted() -> None:
    assert claims(lines(*ROWS)) == Claims(turns=2, tool_calls=3, input_tokens=16, output_tokens=2)
    assert claims(lines(*ROWS, {"event": "turn", "tool_calls": 0, "usage": None})) == Claims(3, 3, None, None)
    assert claims(None) == Claims(0, 0, 0, 0), "a harness that was killed at once has said nothing"


@pytest.mark.parametrize("content", [b"\xff\n", b"[]\n", b"{}\n", b"1\n", b'{"event": "turn"}\n', b'{"event": "turn",'])
def test_a_record_that_is_no_record_claims_nothing(content: bytes) -> None:
    assert claims(content) is None
