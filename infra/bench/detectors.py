"""What live detection costs: CPU a turn on a trace of 200 turns, controller and child together.

Run: `.venv/bin/python infra/bench/detectors.py [--json] [--turns 200] [--mechanism bwrap|uid|none]`.

All five detectors are asked at every turn, in their child inside its mechanism; a turn has one model reply and two
calls whose arguments and results are as long as a trace row keeps them. Counted: user and system time of this process
(the controller, its records) and of the child's processes, from /proc; start-up apart. The target is 30 ms a turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cells.artifacts.live_readers import arm_detectors
from cells.attempt import LiveAttempt
from cells.detection.registry import DETECTORS
from cells.recording.prefix import GrowingPrefix
from cells.recording.trace import ARGUMENTS_CAP, SUMMARY_CAP, encode_trace_row
from launchers.detectors.child_process import DetectorChild
from launchers.detectors.choice import find_mechanism
from launchers.detectors.controller import Controller
from launchers.detectors.records import Moment
from launchers.gateway.decisions import ModelReply

TARGET_MS = 30.0
_SECTION = {"warmup": 0, "cadence": 1, "budget": 10**6, "action": "note", "settings": {}}
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Milliseconds a turn, seconds for the start, bytes of the three records."""

    turns: int
    detectors: int
    mechanism: str
    start_s: float
    cpu_ms_per_turn: float
    controller_cpu_ms_per_turn: float
    child_cpu_ms_per_turn: float
    wall_ms_per_turn: float
    last_turn_wall_ms: float
    trace_bytes: int
    record_bytes: int
    target_ms: float = TARGET_MS


def turn_rows(turn: int) -> list[dict[str, Any]]:
    """The trace rows of one turn: a reply and two calls, as long as rows get."""
    envelope = {"v": 1, "segment": 1, "turn": turn, "lane": "main", "t_mono_s": turn * 1.5}
    calls = [
        {
            **envelope,
            "event": "tool_call",
            "ordinal": ordinal,
            "tool_name": ("bash", "edit")[ordinal],
            "arguments": f"{turn % 97} " + "python3 -m pytest -q tests/test_parse.py; " * (ARGUMENTS_CAP // 42),
            "args_sha256": f"sha256:{turn % 97:064x}",
            "output_sha256": f"sha256:{turn:064x}",
            "result_summary": (f"FAILED tests/test_{turn % 89}.py::test_it - ValueError: {turn}\n" * 12)[:SUMMARY_CAP],
            "is_error": None,
            "exit_status": 1,
        }
        for ordinal in (0, 1)
    ]
    return [{**envelope, "event": "turn", "prompt_tokens": 100 * turn, "calls": 2}, *calls]


async def measure(turns: int, mechanism_name: str) -> Cost:
    """Ask every detector at every turn."""
    folder = Path(tempfile.mkdtemp(prefix="assay-bench-"))
    mechanism = find_mechanism((mechanism_name,))
    children: list[DetectorChild] = []

    async def start(first: Mapping[str, Any]) -> DetectorChild:
        children.append(await DetectorChild.start(mechanism, first))
        return children[0]

    async def ask(messages: list[dict[str, str]]) -> ModelReply:
        return ModelReply("NO")

    attempt = LiveAttempt.create(folder / "a")
    controller = Controller(attempt, arm_detectors(dict.fromkeys(DETECTORS, _SECTION)), start, ask)
    began = time.perf_counter()
    await controller.start()
    started = time.perf_counter() - began
    own, child, walls, length = await _turns(controller, children[0], turns)
    await controller.close()
    records = sum(path.stat().st_size for path in (attempt.root / "live").iterdir())
    shutil.rmtree(folder)
    return Cost(
        turns=turns,
        detectors=len(DETECTORS),
        mechanism=mechanism.name,
        start_s=round(started, 3),
        cpu_ms_per_turn=round(1000 * (own + child) / turns, 2),
        controller_cpu_ms_per_turn=round(1000 * own / turns, 2),
        child_cpu_ms_per_turn=round(1000 * child / turns, 2),
        wall_ms_per_turn=round(1000 * sum(walls) / turns, 2),
        last_turn_wall_ms=round(1000 * sum(walls[-10:]) / len(walls[-10:]), 2),
        trace_bytes=length,
        record_bytes=records,
    )


async def _turns(controller: Controller, child: DetectorChild, turns: int) -> tuple[float, float, Sequence[float], int]:
    """CPU seconds of this process and of the child's, wall seconds of each turn, bytes of the trace."""
    prefix, walls, pids = GrowingPrefix(), [], _family(child.pid)
    own, others = time.process_time(), _cpu_of(pids)
    for turn in range(turns):
        rows = turn_rows(turn)
        prefix.add(b"".join(map(encode_trace_row, rows)))
        began = time.perf_counter()
        await controller.decide(Moment(turn, 1, prefix.length, prefix.digest, 0.0), rows)
        walls.append(time.perf_counter() - began)
    return time.process_time() - own, _cpu_of(pids) - others, walls, prefix.length


def _family(pid: int) -> list[int]:
    """A process and everything below it."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for task in Path(f"/proc/{one}/task").glob("*"):
            waiting += [int(word) for word in (task / "children").read_text().split()]
    return found


def _cpu_of(pids: Sequence[int]) -> float:
    """User and system seconds of some processes (proc(5), stat fields 14 and 15)."""
    total = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(words[11]) + int(words[12])
    return total / _TICK


def main() -> int:
    """Print the cost; 1 when it is over the target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--mechanism", choices=["bwrap", "uid", "none"], default="bwrap")
    options = parser.parse_args()
    cost = asyncio.run(measure(options.turns, options.mechanism))
    if options.json:
        print(json.dumps(asdict(cost), indent=2))
    else:
        print("\n".join(f"{name:28} {value}" for name, value in asdict(cost).items()))
    return 0 if cost.cpu_ms_per_turn <= TARGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
