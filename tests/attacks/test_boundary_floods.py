"""A cell fills whatever it can: its output, its files, names, processes, memory.

Naive: the engine's log and the host's disk take it all, and the next reader reads it all. Ours: every way out has a
cap.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.live_request import LiveResult
from launchers.specimen import SpecimenCells

pytestmark = [pytest.mark.engine, pytest.mark.attack]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpecimenCells]:
    engine = Engine.connect()
    root: Path = tmp_path_factory.mktemp("floods")
    yield SpecimenCells.on(engine, root, DockerSandboxes(engine, root))
    engine.close()


def size(result: LiveResult) -> int:
    return sum((result.sealed.root / name).stat().st_size for name in result.sealed.names())


def kinds(result: LiveResult) -> set[str]:
    return {one["kind"] for one in result.sealed.seal["findings"]}


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_a_flood_of_output_is_cut_and_said(cells: SpecimenCells, stream: str) -> None:
    with closing(cells.shell(f"head -c 300000000 /dev/zero{stream}")) as result:
        assert result.sealed.facts["ended"] == "completed"
        assert "output_dropped" in kinds(result)
        assert size(result) < 20 << 20


def test_a_flood_of_files_to_gather_is_cut_and_said(cells: SpecimenCells) -> None:
    program = "import os\nfor number in range(6000): open('f%d' % number, 'w').close()"
    result = cells.run("command", {"command": ["python3", "-c", program], "gather": ["f*"]})
    with closing(result.collector):
        assert "not_gathered" in kinds(result)
        assert len(result.sealed.names()) < 2100


def test_a_flood_of_bytes_to_gather_is_cut_and_said(cells: SpecimenCells) -> None:
    program = "for number in range(3): open('f%d' % number, 'wb').write(bytes(40 << 20))"
    result = cells.run("command", {"command": ["python3", "-c", program], "gather": ["f*"]})
    with closing(result.collector):
        assert result.sealed.facts["ended"] in ("completed", "harness_error")
        assert "not_gathered" in kinds(result)
        assert size(result) < 64 << 20


def test_names_beyond_every_bound_do_not_stop_the_seal(cells: SpecimenCells) -> None:
    program = (
        "import os\nfor number in range(300): os.makedirs('/'.join(['%03d' % number + 'n' * 200] * 15), exist_ok=True)"
    )
    result = cells.run("command", {"command": ["python3", "-c", program], "gather": ["**"]})
    with closing(result.collector):
        assert result.sealed.facts["ended"] in ("completed", "harness_error")
        assert result.sealed.has("live/fingerprint.txt")


def test_processes_are_bounded_and_gone_with_the_cell(cells: SpecimenCells) -> None:
    program = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(600); os._exit(0)
        made += 1
except OSError:
    print(made, flush=True)
"""
    with closing(cells.run("command", {"command": ["python3", "-c", program]})) as result:
        assert int(result.sealed.read("live/harness.stdout.log", "audit")) < 64
        assert {"left_processes"} <= kinds(result)


def test_memory_of_files_in_memory_is_bounded_together_with_that_of_processes(cells: SpecimenCells) -> None:
    program = """
import os
for folder in ("/tmp", "/dev/shm", "."):
    try:
        with open(folder + "/fill", "wb") as stream:
            while True:
                stream.write(bytes(1 << 20))
    except OSError:
        pass
print(sum(os.stat(folder + "/fill").st_size for folder in ("/tmp", "/dev/shm", ".")) >> 20, flush=True)
"""
    with closing(cells.run("command", {"command": ["python3", "-c", program]})) as result:
        said = result.sealed.read("live/harness.stdout.log", "audit").strip()
        assert not said or int(said) <= 256 + 64
