"""ATIF: the trace of an attempt as a trajectory of version 1.8, as far as the trace knows.

Rules (Harbor 0.26, `models/trajectories/`):
1. A step is a completed exchange; `main` is the trajectory, every other lane one of its `subagent_trajectories`.
2. What the trace does not hold is left out: the words of a reply (ATIF wants a text there: it is empty, and `extra` has
   its length), the clock, costs. A total that is not known whole is left out too.
3. Arguments that the trace holds whole and that are a JSON object stand as one; all others as text in `extra`. A call
   without a result has no observation.
4. Events that are no steps (compactions, injections, API errors) are counted in `extra`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from cells.errors import EvidenceError
from cells.recording.loose_json import NoJson, parse
from cells.recording.trace import TRACE_VERSION

ATIF_VERSION = "ATIF-v1.8"
UNKNOWN_VERSION = "unknown"
_STEPS = ("turn", "tool_start", "tool_call")
_MAIN = "main"

TraceRow = Mapping[str, Any]
Document = dict[str, Any]


def trajectory(rows: Iterable[TraceRow], *, harness: str, version: str | None = None, session: str) -> Document:
    """The trajectory of a trace. EvidenceError for a trace of another version, or one without a completed exchange of
    `main`: ATIF has no empty trajectory."""
    trace = list(rows)
    other = next((row for row in trace if row.get("v") != TRACE_VERSION), None)
    if other is not None:
        raise EvidenceError(f"trace row {other.get('seq')}: v is {other.get('v')!r}; read is {TRACE_VERSION}")
    turns = [row for row in trace if row["event"] == "turn"]
    lanes = list(dict.fromkeys(row["lane"] for row in turns))
    if _MAIN not in lanes:
        raise EvidenceError("trace: no completed exchange of lane main; asked for a trajectory of at least one step")
    agent = {"name": harness, "version": version or UNKNOWN_VERSION}
    calls = _calls(trace)
    main, *others = [
        _lane(lane, [row for row in turns if row["lane"] == lane], calls, agent)
        for lane in sorted(lanes, key=lambda lane: lane != _MAIN)
    ]
    counted = Counter(row["event"] for row in trace if row["event"] not in _STEPS)
    return main | _known(session_id=session, subagent_trajectories=others or None, extra={"events": dict(counted)})


def _lane(lane: str, turns: list[TraceRow], calls: Mapping[int, list[TraceRow]], agent: Document) -> Document:
    models = {row["model"] for row in turns}
    steps = [_step(number, row, calls.get(row["wire"], [])) for number, row in enumerate(turns, 1)]
    return {
        "schema_version": ATIF_VERSION,
        "trajectory_id": lane,
        "agent": agent | _known(model_name=models.pop() if len(models) == 1 else None),
        "steps": steps,
        "final_metrics": _totals(turns),
    }


def _calls(trace: list[TraceRow]) -> dict[int, list[TraceRow]]:
    """The calls by the exchange that made them: with arguments and result where they were answered."""
    made: dict[tuple[int, int], TraceRow] = {}
    for row in trace:
        if row["event"] == "tool_start":
            made[row["wire"], row["ordinal"]] = row
        elif row["event"] == "tool_call":
            made[row["called_in"], row["ordinal"]] = row
    found: dict[int, list[TraceRow]] = {}
    for (exchange, _), row in sorted(made.items()):
        found.setdefault(exchange, []).append(row)
    return found


def _step(number: int, turn: TraceRow, calls: list[TraceRow]) -> Document:
    named = [(_call_id(turn, call), call) for call in calls]
    results = [_result(name, call) for name, call in named if call["event"] == "tool_call"]
    return {"step_id": number, "source": "agent", "message": "", "llm_call_count": 1} | _known(
        model_name=turn["model"],
        tool_calls=[_tool_call(name, call) for name, call in named] or None,
        observation={"results": results} if results else None,
        metrics=_metrics(turn) or None,
        extra=_known(
            turn=turn["turn"],
            exchange=turn["wire"],
            finish=turn["finish"],
            text_chars=turn["text_chars"],
            monotonic_s=turn["t_mono_s"],
        ),
    )


def _call_id(turn: TraceRow, call: TraceRow) -> str:
    return call["call_id"] or f"{turn['wire']}.{call['ordinal']}"


def _tool_call(name: str, call: TraceRow) -> Document:
    arguments = call.get("arguments")
    whole = _object(arguments) if arguments is not None and not call["arguments_truncated"] else None
    told: Document = {} if whole is not None or arguments is None else {"arguments_text": arguments}
    told |= _known(arguments_truncated=call.get("arguments_truncated") or None, args_sha256=call.get("args_sha256"))
    return {"tool_call_id": name, "function_name": call["tool_name"], "arguments": whole or {}} | _known(
        extra=told or None
    )


def _object(text: str) -> Document | None:
    try:
        value = parse(text)
    except NoJson:
        return None
    return value if isinstance(value, dict) else None


def _result(name: str, call: TraceRow) -> Document:
    told = _known(
        output_truncated=call["output_truncated"] or None,
        output_chars=call["output_chars"],
        output_sha256=call["output_sha256"],
        is_error=call["is_error"],
        exit_status=call["exit_status"],
    )
    return {"source_call_id": name, "content": call["result_summary"], "extra": told}


def _metrics(turn: TraceRow) -> Document:
    reasoning = _known(reasoning_tokens=turn["reasoning_tokens"])
    return _known(
        prompt_tokens=turn["prompt_tokens"],
        completion_tokens=turn["completion_tokens"],
        cached_tokens=turn["cached_tokens"],
        extra=reasoning or None,
    )


def _totals(turns: list[TraceRow]) -> Document:
    def total(name: str) -> int | None:
        counts = [row[name] for row in turns]
        return None if None in counts else sum(counts)

    return _known(
        total_prompt_tokens=total("prompt_tokens"),
        total_completion_tokens=total("completion_tokens"),
        total_cached_tokens=total("cached_tokens"),
        total_steps=len(turns),
    )


def _known(**fields: Any) -> Document:
    """The fields that are not null."""
    return {name: value for name, value in fields.items() if value is not None}
