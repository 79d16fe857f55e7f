"""What a harness left about itself against what we know: its state file, and files that no measurement has.

Rules (saved-files, "Rules for using a file"):
1. The trace wins: a state file that differs is recorded with the fields that differ, and changes nothing.
2. Counts of events are not compared: a harness counts the events of its own trace.
3. A file of coding sessions in a measurement is named as what it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cells.artifacts import CONTRACT
from cells.artifacts.check import assistant_only
from cells.artifacts.members import member_names
from cells.artifacts.table import HARNESS_FOLDER
from cells.evidence.files import read_regular
from cells.recording.state import project_state

_COMPARED = ("state", "gates", "todos", "tools", "last_rewind", "rewind_report", "last_compaction")
_STATE_ROW = 15
_STATE_CAP = 16 << 20


def claim_findings(root: Path, trace: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Findings about the gathered files of an attempt; `trace` are the rows of its trace."""
    names = [name.removeprefix(HARNESS_FOLDER) for name in member_names(root, HARNESS_FOLDER.rstrip("/"))]
    for problem in assistant_only(names):
        yield {"kind": "assistant_only", "path": HARNESS_FOLDER + problem.path, "detail": problem.detail}
    states = [name for name in names if _is_state(name)]
    ours = project_state(trace) if states else {}
    for name in states:
        yield from _state_findings(root, HARNESS_FOLDER + name, ours)


def _is_state(name: str) -> bool:
    row = CONTRACT.harness_row(name)
    return row is not None and row.seed_row == _STATE_ROW


def _state_findings(root: Path, name: str, ours: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = read_regular(root / name)
    try:
        theirs = json.loads(content) if len(content) <= _STATE_CAP else None
    except (ValueError, RecursionError):
        theirs = None
    if not isinstance(theirs, dict):
        yield {"kind": "state_unreadable", "path": name}
        return
    fields = [field for field in _COMPARED if theirs.get(field) != ours.get(field)]
    if _edit_format(theirs) != _edit_format(ours):
        fields.append("meta.edit_format")
    if fields:
        yield {"kind": "state_mismatch", "path": name, "fields": fields, "authority": "live/trace.jsonl"}


def _edit_format(state: Mapping[str, Any]) -> Any:
    meta = state.get("meta")
    return meta.get("edit_format") if isinstance(meta, dict) else None
