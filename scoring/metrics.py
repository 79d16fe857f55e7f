"""checkpoint.json and metrics.json of a cell, for every harness alike, from our own records (saved-files, "Post-run
metric groups").

Rules:
1. Numbers come from the seal's facts, the usage rows and the trace; what nobody told is null, never 0 and never
   estimated.
2. `tokens_by_role` charges each complete response once to `main` or `side`; an unknown count makes its sum unknown.
3. The cache hit ratio is weighted by tokens, and null as soon as one required count is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cells.attempt import SealedAttempt
from scoring.records import CellRecord, ended_of, read_rows

METRICS_VERSION = 1
CHECKPOINT, METRICS = "post/checkpoint.json", "post/metrics.json"
Row = dict[str, Any]


def checkpoint_document(sealed: SealedAttempt, cell: CellRecord) -> Row:
    """checkpoint.json: final status, model, solver, time. It does not explain why the run behaved as it did."""
    facts = sealed.facts
    timings = facts.get("timings") or {}
    return {
        "v": METRICS_VERSION,
        "status": ended_of(sealed).value,
        "detail": facts.get("detail"),
        "exit_code": facts.get("exit_code"),
        "model": cell.model,
        "solver": cell.arm.get("harness"),
        "started_at": cell.session.get("at"),
        "run_s": timings.get("run_s"),
    }


def metrics_document(sealed: SealedAttempt, cell: CellRecord) -> Row:
    """metrics.json."""
    facts = sealed.facts
    trace = read_rows(sealed, "live/trace.jsonl")
    usage = [row for row in read_rows(sealed, "live/usage.jsonl") if row.get("event") == "response_usage"]
    return {
        "v": METRICS_VERSION,
        "totals": facts.get("budget"),
        "timings": facts.get("timings"),
        "counters": facts.get("counters"),
        "tool_loading": _tool_loading(trace),
        "length_continuations": _count(trace, "length_continue"),
        "file_checkpoints": {"enabled": None, "calls": None},
        "prompt_cache": _prompt_cache([row.get("usage") or {} for row in usage]),
        "tokens_by_role": _tokens_by_role([row for row in trace if row.get("event") == "turn"]),
        "subagents": {"calls": None, "tokens": None},
        "model_fallback": _model_fallback(trace),
        "api_errors": _count(trace, "api_error"),
        "compactions": _count(trace, "compaction"),
        "tool_calls": _count(trace, "tool_call"),
        "injections": _count(trace, "injection"),
        "configuration": {"settings": cell.arm.get("settings"), "input_limit": cell.arm.get("input_limit")},
    }


def _count(trace: Sequence[Row], event: str) -> int:
    return sum(row.get("event") == event for row in trace)


def _tool_loading(trace: Sequence[Row]) -> Row:
    activated = [row for row in trace if row.get("event") == "tools_activated"]
    return {
        "registered": None,
        "initial": None,
        "initial_block_tokens": None,
        "activations": len(activated),
        "new_tools": sum(len(row.get("new") or ()) for row in activated),
        "active_limit": None,
    }


def _prompt_cache(usage: Sequence[Row]) -> Row:
    observed = [row for row in usage if row.get("cached") is not None and row.get("input") is not None]
    prompt = sum(row["input"] for row in observed)
    whole = len(observed) == len(usage) and prompt > 0
    return {
        "observed": len(observed),
        "unobserved": len(usage) - len(observed),
        "hit_ratio": round(sum(row["cached"] for row in observed) / prompt, 6) if whole else None,
    }


def _tokens_by_role(turns: Sequence[Row]) -> Row:
    roles = sorted({str(row.get("role")) for row in turns})
    return {role: _tokens([row for row in turns if str(row.get("role")) == role]) for role in roles}


def _tokens(turns: Sequence[Row]) -> Row:
    return {
        "responses": len(turns),
        "input": _sum(row.get("prompt_tokens") for row in turns),
        "cached": _sum(row.get("cached_tokens") for row in turns),
        "output": _sum(row.get("completion_tokens") for row in turns),
    }


def _sum(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _model_fallback(trace: Sequence[Row]) -> Row:
    rows = [row for row in trace if row.get("event") == "model_fallback"]
    return {
        "changed": bool(rows),
        "transitions": len(rows),
        "roles": sorted({"main" if row.get("lane") == "main" else "side" for row in rows}),
        "targets": sorted({str(row.get("target_model")) for row in rows}),
    }
