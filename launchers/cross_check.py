"""At the seal: what a harness says it did, against what the gateway saw. A difference is a finding; the wire is right.

Rules:
1. Turns and calls are those of lane `main`; tokens are compared only where both sides know all of them.
2. A record that cannot be read is a finding too, where the harness keeps one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launchers.harnesses.protocol import Claims

_FIELDS = ("turns", "tool_calls", "input_tokens", "output_tokens")

Finding = dict[str, Any]


def seen_on_the_wire(trace: Sequence[Mapping[str, Any]]) -> Claims:
    """The same counts, from the rows of live/trace.jsonl."""
    turns = [row for row in trace if row.get("event") == "turn" and row.get("lane") == "main"]
    return Claims(
        turns=len(turns),
        tool_calls=_total([row.get("calls") for row in turns]),
        input_tokens=_total([row.get("prompt_tokens") for row in turns]),
        output_tokens=_total([row.get("completion_tokens") for row in turns]),
    )


def compare(said: Claims | None, trace: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """One finding for each count in which both are known and differ."""
    if said is None:
        return [{"kind": "harness_record_unreadable"}]
    seen = seen_on_the_wire(trace)
    pairs = [(name, getattr(said, name), getattr(seen, name)) for name in _FIELDS]
    return [
        {"kind": "harness_record_differs", "field": name, "harness": one, "wire": other}
        for name, one, other in pairs
        if one is not None and other is not None and one != other
    ]


def _total(counts: Sequence[Any]) -> int | None:
    return None if None in counts else sum(int(count) for count in counts)
