"""What attacks on the boundary share: a program in a cell that tries things and says which of them worked."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from launchers.gateway.client import GatewayProcess
from launchers.live_request import LiveRequest, LiveResult, LiveTools
from launchers.run_cell import run_live
from launchers.specimen import LIMITS, SpecimenCells

Line = dict[str, Any]
MODEL: Line = {"name": "fixed", "provider": "scripted", "model": "m"}

PRELUDE = """
import ctypes, json, os, socket, stat, subprocess, sys
told = json.loads(sys.argv[1])
worked = {}
def attack(name, act):
    try:
        worked[name] = bool(act())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        worked[name] = False
def connects(path):
    socket.socket(socket.AF_UNIX).connect(path)
    return True
def reaches(host, port):
    socket.create_connection((host, port), 2)
    return True
def reads(path):
    return bool(open(path, "rb").read(64))
def writes(path):
    with open(path, "a") as stream:
        stream.write("x")
    return True
def runs(*words):
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10).returncode == 0
def call(number, *arguments):
    return ctypes.CDLL(None, use_errno=True).syscall(number, *arguments) >= 0
"""
EPILOGUE = "\njson.dump(worked, open('worked.json', 'w'))\n"


@dataclass(frozen=True)
class Doors:
    """Cells of the specimen task with a gateway of their own."""

    cells: SpecimenCells
    gateway: GatewayProcess
    folder: Path

    def request(
        self, program: str, told: Mapping[str, Any], script: list[Line] | None = None, **limits: Any
    ) -> LiveRequest:
        """A cell that runs an attack; with `script` it has a door to a model."""
        words = ["python3", "-I", "-c", PRELUDE + program + EPILOGUE, json.dumps(dict(told))]
        settings = {"command": words, "gather": ["worked.json"]}
        model = None if script is None else MODEL
        request = self.cells.request("command", settings, model=model, limits=replace(LIMITS, **limits))
        if script is None:
            return request
        path = self.folder / f"{request.stage.name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in script))
        return replace(request, script=path)

    def run(self, request: LiveRequest) -> LiveResult:
        """One attempt, to its seal; the caller closes the collector."""
        return run_live(request, LiveTools(self.cells.sandboxes, self.gateway, threading.Event(), lambda phase: None))


def worked(result: LiveResult) -> dict[str, bool]:
    """Which attacks of a cell worked, as the cell itself says."""
    found: dict[str, bool] = json.loads((result.sealed.root / "live/harness/workdir/worked.json").read_bytes())
    return found


@contextmanager
def doors(cells: SpecimenCells) -> Iterator[Doors]:
    """A gateway in a short folder, and cells that use it."""
    folder = Path(tempfile.mkdtemp(prefix="atk"))
    try:
        with GatewayProcess.start(folder / "g") as gateway:
            yield Doors(cells, gateway, folder)
    finally:
        shutil.rmtree(folder)
