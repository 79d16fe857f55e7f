"""Truncating a trace after turn N changes no decision at or before N."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cells.artifacts.access import cut_prefix
from cells.artifacts.decision_rows import LEDGER
from cells.artifacts.live_readers import arm_detectors, detector_reader
from cells.attempt import LiveAttempt
from cells.detection.child import answer
from cells.detection.registry import DETECTORS, make
from cells.evidence.digest import digest_bytes
from cells.recording.prefix import prefix_through
from cells.recording.trace import encode_trace_row
from launchers.detectors.controller import Controller
from launchers.detectors.records import Moment
from launchers.gateway.decisions import ModelReply

Row = dict[str, Any]
TEXTS = st.sampled_from(["ok", "FAILED a::b - Error: x", "FAILED a::c - Error: y", "boom"])


def _row(event: str, turn: int | None, **more: Any) -> Row:
    return {"v": 1, "event": event, "segment": 1, "turn": turn, "lane": "main" if turn is not None else None, **more}


@st.composite
def traces(draw: st.DrawFn) -> list[list[Row]]:
    """Rows of each turn, as a gateway writes them: the turn, its calls, sometimes rows of other lanes."""
    turns = []
    for turn in range(draw(st.integers(1, 25))):
        rows = [_row("turn", turn, prompt_tokens=draw(st.one_of(st.none(), st.integers(0, 1200))))]
        for _ in range(draw(st.integers(0, 2))):
            arguments = draw(st.sampled_from(["ls", "pytest", "cat > x", "sed -i s/a/b/ x"]))
            rows.append(
                _row(
                    "tool_call",
                    turn,
                    tool_name=draw(st.sampled_from(["bash", "edit", "read"])),
                    arguments=arguments,
                    args_sha256=arguments,
                    output_sha256=draw(st.sampled_from(["1", "2"])),
                    result_summary=draw(TEXTS),
                    exit_status=draw(st.sampled_from([None, 0, 1])),
                )
            )
        turns.append(rows + ([_row("api_error", None)] if draw(st.booleans()) else []))
        if turn and draw(st.booleans()):
            turns[-1].insert(0, _row("injection", turn - 1, trigger="controller_note"))
    turns[0].insert(0, _row("session_start", None, context_size=draw(st.sampled_from([None, 1000]))))
    return turns


class InProcessChild:
    """The child's program without a process: the same answers, by the same code."""

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._arm = first["detectors"]
        self._rows: dict[str, list[Row]] = {name: [] for name in self._arm}

    async def ask(self, message: Mapping[str, Any], deadline_s: float = 0) -> bytes:
        name = message["detector"]
        self._rows[name] += message["rows"]
        made = make(name, self._arm[name]["settings"])
        return json.dumps(answer(made, self._arm[name]["action"], self._rows[name], message)).encode()

    async def close(self) -> None:
        """Nothing to end."""


def _decisions(turns: list[list[Row]]) -> list[tuple[str, str, str]]:
    """Decision after every turn, and the ledger's rows but for their times."""
    section = {"warmup": 1, "cadence": 1, "budget": 3, "action": "note", "settings": {}}
    arm = arm_detectors(dict.fromkeys(DETECTORS, section))

    async def start(first: Mapping[str, Any]) -> InProcessChild:
        return InProcessChild(first)

    async def ask(messages: list[dict[str, str]]) -> ModelReply:
        return ModelReply("YES" if len(messages[1]["content"]) % 2 else "NO")

    async def run(root: Path) -> list[tuple[str, str, str]]:
        controller = Controller(LiveAttempt.create(root / "a"), arm, start, ask)
        await controller.start()
        made, trace = [], b""
        for turn, rows in enumerate(turns):
            trace += b"".join(map(encode_trace_row, rows))
            decided = await controller.decide(Moment(turn, 1, len(trace), digest_bytes(trace), 0.0), rows)
            made.append((decided.action, decided.note, decided.by))
        ledger = (root / "a" / LEDGER).read_text().splitlines()
        return [*made, *(("", line, "") for line in ledger)]

    with TemporaryDirectory() as folder:
        return asyncio.run(run(Path(folder)))


@settings(max_examples=40, deadline=None)
@given(traces(), st.data())
def test_truncating_after_a_turn_changes_no_decision_at_or_before_it(
    turns: list[list[Row]], data: st.DataObject
) -> None:
    kept = data.draw(st.integers(1, len(turns)))
    whole, cut = _decisions(turns), _decisions(turns[:kept])
    assert cut[:kept] == whole[:kept]
    ledger_rows = len(cut) - kept
    assert cut[kept:] == whole[len(turns) : len(turns) + ledger_rows]


@settings(max_examples=40, deadline=None)
@given(traces(), st.data())
def test_a_prefix_is_the_same_whatever_comes_after_it(turns: list[list[Row]], data: st.DataObject) -> None:
    turn = data.draw(st.integers(0, len(turns) - 1))
    lines = [[encode_trace_row(row) for row in rows] for rows in turns]
    through = b"".join(line for rows in lines[: turn + 1] for line in rows)
    whole = b"".join(line for rows in lines for line in rows)
    for name in DETECTORS:
        fields = detector_reader(make(name, {})).fields["live/trace.jsonl"]
        assert cut_prefix(whole, turn, fields=fields) == cut_prefix(through, turn, fields=fields)
    assert cut_prefix(whole, turn).digest == prefix_through(whole, turn).digest == digest_bytes(through)
