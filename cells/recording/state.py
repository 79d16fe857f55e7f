"""The state projection: live/.solver/state.json, a view that the trace alone decides.

Rules (saved-files, "State projection fields"):
1. The same trace gives the same bytes; where state and trace disagree the trace is right.
2. A rewind selects an earlier active branch: rows of main after its target turn stay in the trace and leave the view.
3. No summary text, rule body, handoff, advisor, hook, process, usage or most run-start provenance enters it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cells.recording.loose_json import loose_bytes

STATE_VERSION = 1
_PHASES = {"plan_mode_enter": "plan", "plan_mode_exit": "work"}
_GATES = ("stream_rule_triggered", "stream_rule_injection")
_GATE_FIELDS = ("event", "turn", "rule", "scope", "offset", "path", "tool", "interrupt", "delivery", "context_mode")
_COMPACTION_FIELDS = ("turn", "lane", "method", "role", "hook", "hook_outcome", "items_before", "items_after")
_REWIND_FIELDS = ("turn", "source_turn", "target_turn", "kind", "reason", "delivery")
_NOT_PROJECTED = frozenset(
    [
        "handoff",
        "advisor_note",
        "hook",
        "session_usage",
        "proc_start",
        "proc_poll",
        "proc_kill",
        "checkpoint",
        "model_fallback",
        "turn",
        "terminal_start",
        "terminal_input",
        "terminal_read",
        "terminal_end",
    ]
)

Row = Mapping[str, Any]


def project_state(rows: Iterable[Row]) -> dict[str, Any]:
    """The state after these trace rows."""
    raw = list(rows)
    active = _active(raw)
    projected = [row for row in active if row["event"] not in _NOT_PROJECTED]
    rewinds = [row for row in active if row["event"] == "rewind"]
    return {
        "v": STATE_VERSION,
        "meta": {
            "edit_format": _latest(active, "session_start", "edit_format"),
            "event_count": len(raw),
            "projected_event_count": len(projected),
            "active_event_count": len(active),
        },
        "state": {"phase": _phase(active)},
        "gates": [_pick(row, _GATE_FIELDS) for row in active if row["event"] in _GATES],
        "todos": _latest(active, "todos", "todos"),
        "tools": _tools(active),
        "last_rewind": _pick(rewinds[-1], _REWIND_FIELDS) if rewinds else None,
        "rewind_report": rewinds[-1].get("report") if rewinds else None,
        "last_compaction": next(
            (_pick(row, _COMPACTION_FIELDS) for row in reversed(active) if row["event"] == "compaction"), None
        ),
    }


def state_bytes(rows: Iterable[Row]) -> bytes:
    """The file: sorted compact JSON and a newline."""
    return loose_bytes(project_state(rows)) + b"\n"


def _active(rows: list[Row]) -> list[Row]:
    active: list[Row] = []
    for row in rows:
        target = row.get("target_turn") if row["event"] == "rewind" else None
        if isinstance(target, int):
            active = [old for old in active if not _after(old, target)]
        active.append(row)
    return active


def _after(row: Row, turn: int) -> bool:
    found = row.get("turn")
    return isinstance(found, int) and found > turn and row["event"] != "rewind"


def _phase(rows: list[Row]) -> str | None:
    return next((_PHASES[row["event"]] for row in reversed(rows) if row["event"] in _PHASES), None)


def _tools(rows: list[Row]) -> list[str] | None:
    """The newest set of tools of main: as activated last, else as registered at the start."""
    for row in reversed(rows):
        if row["event"] == "tools_activated" and row.get("lane") == "main":
            return list(row["final"])
    registered = _latest(rows, "session_start", "active_tools")
    return list(registered) if isinstance(registered, list) else None


def _latest(rows: list[Row], event: str, name: str) -> Any:
    return next((row.get(name) for row in reversed(rows) if row["event"] == event), None)


def _pick(row: Row, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names if name in row}
