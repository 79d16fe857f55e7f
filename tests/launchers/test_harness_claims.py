"""What a harness says about itself is compared with the trace, and the trace wins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cells.recording.state import project_state
from launchers.harness_claims import claim_findings

TRACE: list[dict[str, Any]] = [
    {"event": "session_start", "turn": None, "lane": None, "edit_format": "diff", "active_tools": ["bash"]},
    {"event": "plan_mode_enter", "turn": 0, "lane": "main"},
    {"event": "todos", "turn": 1, "lane": "main", "todos": [{"text": "fix"}]},
]


def left(root: Path, name: str, content: bytes) -> Path:
    path = root / "live/harness" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return root


def state(**changes: Any) -> bytes:
    return json.dumps(project_state(TRACE) | changes).encode()


def test_a_state_that_the_trace_gives_is_no_finding_whatever_it_counts(tmp_path: Path) -> None:
    meta = {"edit_format": "diff", "event_count": 99}
    left(tmp_path, "w/.solver/state.json", state(meta=meta))
    assert list(claim_findings(tmp_path, TRACE)) == []


def test_a_state_that_differs_is_recorded_with_its_fields(tmp_path: Path) -> None:
    left(tmp_path, ".solver/state.json", state(todos=[], state={"phase": "work"}, meta={"edit_format": "whole"}))
    assert list(claim_findings(tmp_path, TRACE)) == [
        {
            "kind": "state_mismatch",
            "path": "live/harness/.solver/state.json",
            "fields": ["state", "todos", "meta.edit_format"],
            "authority": "live/trace.jsonl",
        }
    ]


@pytest.mark.parametrize("content", [b"", b"[]", b"not json", b"\xff", b"[" * 100_000])
def test_a_state_that_cannot_be_read_is_said(tmp_path: Path, content: bytes) -> None:
    left(tmp_path, ".solver/state.json", content)
    assert [one["kind"] for one in claim_findings(tmp_path, TRACE)] == ["state_unreadable"]


def test_files_of_coding_sessions_are_named(tmp_path: Path) -> None:
    left(tmp_path, "s/clarification_answer.json", b"{}")
    (finding,) = claim_findings(tmp_path, TRACE)
    assert (finding["kind"], finding["path"]) == ("assistant_only", "live/harness/s/clarification_answer.json")


def test_a_harness_that_left_nothing_has_no_findings(tmp_path: Path) -> None:
    assert list(claim_findings(tmp_path, TRACE)) == []
