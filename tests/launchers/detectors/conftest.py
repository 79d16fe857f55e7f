"""A whole attempt without an engine: a real gateway, a scripted model, detectors in their child, sealed at the end."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cells.attempt import LiveAttempt, SealedAttempt
from cells.design.cell import CellLimits
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.files import read_regular
from cells.recording.state import state_bytes
from launchers.detectors.watcher import boundary_of
from launchers.gateway.client import GatewayProcess, GatewaySession
from launchers.gateway.contract import GatewayCell, SessionTotals

Line = dict[str, Any]
LIMITS = CellLimits("active", 600, None, None, None, None, 64, 1.0, 8, "memory", 16, 10)
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def section(**more: Any) -> Line:
    return {"action": "note", "warmup": 0, "cadence": 1, "budget": 1, "settings": {}} | more


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


@dataclass
class Harness:
    """A cell as its harness sees it: it runs the tools that the model asks for, and remembers what it was told."""

    attempt: LiveAttempt
    session: GatewaySession
    messages: list[Line] = field(default_factory=lambda: [{"role": "user", "content": "fix it"}])
    statuses: list[int] = field(default_factory=list)

    def turns(self, count: int, output: str = "same") -> None:
        for _ in range(count):
            answer = self._ask()
            if answer is None:
                return
            self.messages.append(answer)
            for call in answer.get("tool_calls", ()):
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})

    def _ask(self) -> Line | None:
        connection = _Unix(self.session.socket_dir / "model.sock")
        body = json.dumps({"model": "m", "messages": self.messages, "tools": TOOLS})
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        got = connection.getresponse()
        self.statuses.append(got.status)
        document = json.loads(got.read())
        connection.close()
        return document["choices"][0]["message"] if got.status == 200 else None

    def seal(self) -> tuple[SealedAttempt, SessionTotals]:
        totals = self.session.close("completed")
        trace = read_regular(self.attempt.root / "live/trace.jsonl")
        self.attempt.write("live/.solver/state.json", state_bytes(map(json.loads, trace.splitlines())), "sealer")
        self.attempt.write("live/fingerprint.txt", digest_bytes(trace).encode(), "sealer")
        return self.attempt.seal([], {"ended": "completed"}), totals

    def rows(self, name: str) -> list[Line]:
        path = self.attempt.root / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass
class Bench:
    gateway: GatewayProcess
    folder: Path
    numbers: count[int] = field(default_factory=lambda: count(1))

    def cell(self, script: list[Line], detectors: Line, limits: CellLimits = LIMITS) -> Harness:
        """A cell whose start is sealed and whose door is open."""
        number = next(self.numbers)
        attempt = LiveAttempt.create(self.folder / f"cells/c{number}/attempts/a001")
        lines = self.folder / f"script{number}.jsonl"
        lines.write_text("".join(json.dumps(line) + "\n" for line in script))
        attempt.write("start/spec.json", canonical_json({"arm": {"detectors": detectors}}), "planner")
        attempt.seal_start(*boundary_of(detectors))
        cell = GatewayCell(
            key=f"{self.folder.name}-{number}",
            attempt_root=attempt.root,
            model={"name": "fixed", "provider": "scripted", "model": "m"},
            limits=limits,
            script=lines,
            detectors=detectors,
        )
        return Harness(attempt, self.gateway.open_cell(cell))


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    folder = Path(tempfile.mkdtemp(prefix="agw"))
    with GatewayProcess.start(folder / "r") as process:
        yield process
    shutil.rmtree(folder)


@pytest.fixture
def bench(gateway: GatewayProcess, tmp_path: Path) -> Bench:
    return Bench(gateway, tmp_path)
