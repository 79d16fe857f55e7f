#!/usr/bin/env python3
"""What a cell costs beyond its containers and their work.

Measured in one run, interleaved in blocks, with the same number of workers:
  wall    `oracle` cells of a real study, from the first published to the last (starting Prefect, image builds apart)
  floor   the same three containers a cell with the same inner work (base copy, git diff, tests) by bare SDK calls
  empty   three containers a cell that do nothing

    python infra/bench/overhead.py [--cells 100] [--workers 4] [--json]
    python infra/bench/overhead.py --memory        # does the orchestrator's memory grow with the number of cells?
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells.sandbox import AGENT_UID, ContainerSpec, Limits, Mount, Owner
from cells.tasks.image import BASE_TREE, COLLECTOR_GIT, TaskImage
from flows.freezing import open_study
from flows.prefect_server import read_server, stop_server
from flows.requests import request
from flows.run import run_study
from flows.selection import RunOptions
from flows.starter import GOLD, write_starter
from launchers import volumes
from launchers.engine import Engine
from launchers.hardening import container_config
from launchers.images import build_task_image
from launchers.labels import labels_of, this_process

LIMITS = Limits(memory_mb=512, disk_mb=64)
TESTS = "cd /workspace && python3 -m pytest -q -p no:cacheprovider -o addopts= --junitxml /tmp/report.xml tests"
HIDDEN = "from calc import add, negate\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
BURN = """

def test_work():
    import time

    end = time.process_time() + {seconds}
    while time.process_time() < end:
        pass
"""
COPY = f"cp -a {BASE_TREE}/. /workspace/"
DIFF = (
    f"cp -a {COLLECTOR_GIT} /tmp/g && cd /in && git --git-dir=/tmp/g --work-tree=/in -c core.bare=false add -A -f . && "
    "git --git-dir=/tmp/g diff --cached --binary HEAD > /tmp/patch && head -c 1 /tmp/patch"
)


@dataclass(frozen=True)
class Span:
    """Cells that ended between two moments, and the processor time that our processes took for them. Seconds."""

    cells: int
    wall: float
    cpu: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--test-seconds", type=float, default=0.0, help="processor time that the hidden tests burn")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as scratch:
        try:
            measured = memory(Path(scratch)) if asked.memory else overhead(Path(scratch), asked)
        finally:
            stop_server(Path(scratch) / "studies")
    print(json.dumps(measured) if asked.json else "\n".join(f"{key:18} {value}" for key, value in measured.items()))
    return 0


def overhead(scratch: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """The ratios, and the seconds behind them."""
    cells, workers = asked.cells, asked.workers
    burning = BURN.format(seconds=asked.test_seconds) if asked.test_seconds else ""
    study = starter(scratch, repeat=cells // 2, more_tests=burning)
    run = Runner(scratch / "studies", workers)
    run.study(study("warm", 4))
    run.server_cpu, run.server_cells = 0.0, 0  # Prefect's start is not a cell's
    image = run.image("warm")
    engine = Engine.connect()
    floors, empties, ours = [], [], []
    for block in range(2):
        floors.append(each(lambda: floor_cell(engine, image, burning), cells // 2, workers))
        ours.append(run.study(study(f"bench{block}", cells // 2)))
        empties.append(each(lambda: empty_cell(engine, image), cells // 4, workers))
    engine.close()
    floor, empty, wall = per_cell(floors), per_cell(empties), per_cell(ours)
    return {
        "ratio": round(wall / floor, 3),
        "empty_ratio": round(wall / empty, 3),
        "floor_s_per_cell": round(floor, 4),
        "empty_s_per_cell": round(empty, 4),
        "wall_s_per_cell": round(wall, 4),
        "cpu_s_per_cell": round(sum(span.cpu for span in ours) / sum(span.cells for span in ours), 4),
        "server_cpu_s_per_cell": round(run.server_cpu / max(run.server_cells, 1), 4),
        "cells": sum(span.cells for span in ours),
        "workers": workers,
        "test_seconds": asked.test_seconds,
    }


def memory(scratch: Path) -> dict[str, Any]:
    """Resident memory of the orchestrator after 20 and after 200 of 1,000 planned `nop` cells. MiB."""
    study = starter(scratch, repeat=1000, control="nop")
    run = Runner(scratch / "studies", 4)
    marks: dict[int, float] = {}
    run.on_end = lambda ended: marks.setdefault(ended, resident_mb())
    run.study(study("memory", 1000), stop_after=200)
    return {
        "planned": 1001,
        "after_20_mb": round(marks[20], 1),
        "after_100_mb": round(marks[100], 1),
        "after_200_mb": round(marks[200], 1),
        "growth_mb_per_100_cells": round(marks[200] - marks[100], 2),
    }


class Runner:
    """Runs studies in this process and notes when their cells end."""

    def __init__(self, studies: Path, workers: int) -> None:
        self.studies, self.workers = studies, workers
        self.server_cpu, self.server_cells = 0.0, 0
        self.on_end: Callable[[int], object] = lambda ended: None

    def study(self, path: Path, stop_after: int | None = None) -> Span:
        """Run a study; the span between its first and last cell."""
        ends: list[tuple[float, float]] = []
        server_before = self._server_cpu()

        def say(line: str) -> None:
            if line.startswith("["):
                ends.append((time.monotonic(), time.process_time()))
                self.on_end(len(ends))
                if len(ends) == stop_after:
                    request(self.studies / path.stem, "stop")

        run_study(path, self.studies, RunOptions(workers=self.workers), say)
        self.server_cpu += self._server_cpu() - server_before
        self.server_cells += len(ends)
        (first, first_cpu), (last, last_cpu) = ends[0], ends[-1]
        return Span(len(ends) - 1, last - first, last_cpu - first_cpu)

    def image(self, name: str) -> TaskImage:
        """The image of the task of a study that ran."""
        engine = Engine.connect()
        try:
            return build_task_image(open_study(self.studies, name).task("add"), engine)
        finally:
            engine.close()

    def _server_cpu(self) -> float:
        server = read_server(self.studies)
        return 0.0 if server is None else group_cpu(server.pid)


def starter(scratch: Path, repeat: int, control: str = "oracle", more_tests: str = "") -> Callable[[str, int], Path]:
    """A maker of studies over one small task: `repeat` control cells and one cell of an arm."""
    write_starter(scratch / "starter")
    with (scratch / "starter/tasks/add/sealed/tests/tests/test_calc.py").open("a") as tests:
        tests.write(more_tests)

    def made(name: str, cells: int) -> Path:
        path = scratch / "starter" / f"{name}.toml"
        path.write_text(
            f'[study]\nname = "{name}"\nseed = 1\ntasks = ["tasks/*"]\n'
            f"[limits]\nmemory_mb = {LIMITS.memory_mb}\ndisk_mb = {LIMITS.disk_mb}\n"
            '[arms.none]\nharness = "command"\nsettings = { command = ["true"] }\n'
            f"[controls]\n{control} = true\nrepeat = {cells}\n"
        )
        return path

    return made


def each(cell: Callable[[], None], count: int, workers: int) -> Span:
    """Run `count` cells on `workers` threads."""
    cell()
    began = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(cell) for _ in range(count)]:
            done.result()
    return Span(count, time.monotonic() - began)


def per_cell(spans: list[Span]) -> float:
    """Mean wall seconds per cell."""
    return sum(span.wall for span in spans) / sum(span.cells for span in spans)


def floor_cell(engine: Engine, image: TaskImage, more_tests: str) -> None:
    """Three containers with a cell's inner work: the collector holds the volume while the agent writes it."""
    labels = labels_of(Owner("bench", "bench", "a001", "agent", 600), this_process(), time.time())
    volume = volumes.create_in_memory(engine.api, labels, LIMITS, AGENT_UID)
    work = (Mount(volume, "/workspace", read_only=False),)
    try:
        collector = created(engine, image, "sleep 0.1; " + DIFF, mounts=(Mount(volume, "/in"),), user="0:0")
        engine.api.start(collector)
        agent = created(engine, image, f"{COPY} && cd /workspace && git apply - <<'E'\n{GOLD}E\n", mounts=work)
        finish(engine, agent)
        engine.api.wait(collector)
        engine.api.remove_container(collector, force=True)
    finally:
        engine.api.remove_volume(volume, force=True)
    tests = f"mkdir -p /workspace/tests && cat > /workspace/tests/test_calc.py <<'E'\n{HIDDEN}{more_tests}E\n{TESTS}"
    script = f"{COPY} && {tests}"
    tmpfs = {"/workspace": f"rw,nosuid,nodev,exec,size=64m,uid={AGENT_UID},gid={AGENT_UID}"}
    finish(engine, created(engine, image, script, tmpfs=tmpfs))


def empty_cell(engine: Engine, image: TaskImage) -> None:
    """Three containers that do nothing."""
    for _ in range(3):
        finish(engine, created(engine, image, "true"))


def created(engine: Engine, image: TaskImage, script: str, **more: Any) -> str:
    """A hardened container that runs a shell script; its id."""
    owner = Owner("bench", "bench", "a001", "agent", 600)
    spec = ContainerSpec(owner, image.image_id, ("sh", "-c", script), LIMITS, **more)
    config = container_config(spec, labels_of(owner, this_process(), time.time()))
    return str(engine.api.create_container_from_config(config)["Id"])


def finish(engine: Engine, container: str) -> None:
    """Start, wait, remove."""
    engine.api.start(container)
    engine.api.wait(container)
    engine.api.remove_container(container, force=True)


def resident_mb() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def group_cpu(session: int) -> float:
    """Processor seconds of the living processes of a session."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
