"""noise.json: what the machine did to a cell, from live/noise.jsonl, and whether the study's limits call it
contaminated.

Rules:
1. Counters of a control group only grow: the last value that was seen counts. Unknown stays null and contaminates
   nothing.
2. CPU throttling is the throttled time as a fraction of the sampled time; host load is the mean one-minute load a core.
3. Contamination marks a cell; it never changes a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cells.artifacts.conditions import Condition
from cells.attempt import SealedAttempt
from cells.design.study_model import NoiseSection
from scoring.records import read_rows

NOISE_VERSION = 1
NAME = "post/noise.json"
_COUNTERS = ("cpu_s", "throttled_s", "memory_peak_mb", "oom_kills", "pids")


def noise_document(sealed: SealedAttempt, limits: NoiseSection) -> dict[str, Any]:
    """noise.json of an attempt under the study's limits."""
    rows = read_rows(sealed, "live/noise.jsonl", Condition.CONTAMINATION)
    summary = summarize(rows)
    reasons = reasons_of(summary, limits)
    return {
        "v": NOISE_VERSION,
        "samples": len(rows),
        "summary": summary,
        "limits": {
            "max_cpu_throttled": limits.max_cpu_throttled,
            "max_host_load_per_core": limits.max_host_load_per_core,
        },
        "reasons": reasons,
        "contaminated": bool(reasons),
    }


def summarize(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """One value for each measure: seconds, MiB, counts, fractions."""
    highest = {name: _highest([(row.get("cell") or {}).get(name) for row in rows]) for name in _COUNTERS}
    times = [row["t_mono_s"] for row in rows if isinstance(row.get("t_mono_s"), (int, float))]
    span = max(times) - min(times) if len(times) > 1 else None
    loads = [load for row in rows if (load := _load_per_core(row.get("host") or {})) is not None]
    throttled = highest["throttled_s"]
    return {
        **highest,
        "sampled_s": span,
        "cpu_throttled": None if throttled is None or not span else round(throttled / span, 6),
        "host_load_per_core": round(sum(loads) / len(loads), 6) if loads else None,
        "host_load_per_core_max": max(loads, default=None),
        "gateway_queue_s": _highest([(row.get("gateway") or {}).get("queue_s") for row in rows]),
    }


def reasons_of(summary: dict[str, float | None], limits: NoiseSection) -> list[str]:
    """Which limits were passed, in words."""
    checks = (
        ("CPU throttled", summary["cpu_throttled"], limits.max_cpu_throttled),
        ("host load a core", summary["host_load_per_core"], limits.max_host_load_per_core),
    )
    return [
        f"{what} {found:.3f}, allowed {allowed:g}"
        for what, found, allowed in checks
        if found is not None and allowed is not None and found > allowed
    ]


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _load_per_core(host: dict[str, Any]) -> float | None:
    load, cores = host.get("load_1"), host.get("cores")
    return load / cores if isinstance(load, (int, float)) and isinstance(cores, int) and cores else None
