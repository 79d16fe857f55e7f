"""A02 to A05: agents that write on after they are done, do not die, run out of time with a fix, or do nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.live_request import LiveResult
from launchers.specimen import SpecimenCells, files_left

pytestmark = [pytest.mark.engine, pytest.mark.attack]
LATE_WRITER = """
(trap '' HUP TERM; exec setsid sh -c 'while :; do date +%s%N >> late.txt; sleep 0.02; done') &
(while :; do date +%s%N >> later.txt; sleep 0.02; done) &
while [ ! -s late.txt ] || [ ! -s later.txt ]; do sleep 0.01; done
echo early > early.txt
exit 0
"""
IGNORE_TERM = "trap '' TERM INT HUP QUIT; echo here > here.txt; while :; do sleep 1; done"
FIX_THEN_HANG = """printf '#!/bin/sh\\necho "hello $1"\\n' > greet.sh; exec sleep 100000"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpecimenCells]:
    engine = Engine.connect()
    root: Path = tmp_path_factory.mktemp("endings")
    yield SpecimenCells.on(engine, root, DockerSandboxes(engine, root))
    engine.close()


def ended(result: LiveResult) -> str:
    return str(result.sealed.facts["ended"])


def test_a02_what_writes_on_after_the_end_is_dead_before_anything_is_collected(cells: SpecimenCells) -> None:
    with closing(cells.shell(LATE_WRITER)) as result:
        first = files_left(result)
        moment = time.time_ns()
        while time.time_ns() < moment + 100_000_000:
            pass  # five of its writes would fit in here
        second = files_left(result)
        assert ended(result) == "completed" and first["early.txt"] == b"early\n"
        assert first["late.txt"] and first == second
        assert {"kind": "left_processes", "count": 4} in [
            finding | {"count": 4} for finding in result.sealed.seal["findings"]
        ]


def test_a03_an_agent_that_ignores_signals_is_dead_at_its_deadline(cells: SpecimenCells) -> None:
    with closing(cells.shell(IGNORE_TERM, wall_s=1.0)) as result:
        assert ended(result) == "wall_limit"
        assert result.sealed.facts["exit_code"] is None
        assert files_left(result)["here.txt"] == b"here\n"


def test_a04_a_fix_on_disk_survives_the_time_limit(cells: SpecimenCells) -> None:
    with closing(cells.shell(FIX_THEN_HANG, wall_s=1.0)) as result:
        assert ended(result) == "wall_limit"
        assert files_left(result)["greet.sh"] == b'#!/bin/sh\necho "hello $1"\n'
        assert result.sealed.facts["timings"]["run_s"] >= 1.0


def test_a05_an_agent_that_does_nothing_completed(cells: SpecimenCells) -> None:
    with closing(cells.shell("exit 0")) as result:
        assert ended(result) == "completed" and result.sealed.seal["findings"] == []
        assert files_left(result) == {
            "greet.sh": b"#!/bin/sh\necho hello\n",
            "notes/read me.txt": b"A name with a space.\n",
        }
