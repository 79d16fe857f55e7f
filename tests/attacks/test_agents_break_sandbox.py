"""A01: an agent attacks the sandbox it lives in. It is noticed at once, or it cannot; never a quiet success."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.live_request import LiveResult
from launchers.specimen import SpecimenCells, files_left

pytestmark = [pytest.mark.engine, pytest.mark.attack]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpecimenCells]:
    engine = Engine.connect()
    root: Path = tmp_path_factory.mktemp("break")
    yield SpecimenCells.on(engine, root, DockerSandboxes(engine, root))
    engine.close()


def facts(result: LiveResult) -> tuple[str, str]:
    return result.sealed.facts["ended"], result.sealed.facts["detail"]


def kinds(result: LiveResult) -> list[str]:
    return [finding["kind"] for finding in result.sealed.seal["findings"]]


def test_killing_the_first_process_does_nothing_and_killing_everything_is_a_broken_sandbox(
    cells: SpecimenCells,
) -> None:
    with closing(cells.shell("kill -9 1; kill -9 1; echo alive")) as spared:
        assert facts(spared) == ("completed", "exit 0")
        assert spared.sealed.read("live/harness.stdout.log", "audit") == b"alive\n"
    with closing(cells.shell("kill -9 1; kill -9 -1")) as broken:
        assert facts(broken) == ("sandbox_broken", "guard_killed")


@pytest.mark.parametrize("attack", ["kill -9 -1; sleep 60", "kill -9 -1 & sleep 60", "pkill -9 guard; sleep 60"])
def test_a_broken_sandbox_is_noticed_at_once_and_not_at_the_limit(cells: SpecimenCells, attack: str) -> None:
    with closing(cells.shell(attack, wall_s=50.0)) as broken:
        assert facts(broken) == ("sandbox_broken", "guard_killed")


def test_programs_of_the_image_cannot_be_deleted(cells: SpecimenCells) -> None:
    script = "rm -rf /bin /usr/bin /usr/lib /assay 2>/dev/null; code=$?; ls / > listing; exit $code"
    with closing(cells.shell(script)) as result:
        assert facts(result) == ("harness_error", "exit 1")
        assert b"bin" in files_left(result)["listing"]


def test_a_work_directory_that_nobody_can_use_is_a_broken_sandbox_and_is_collected_all_the_same(
    cells: SpecimenCells,
) -> None:
    with closing(cells.shell("echo mine > new; chmod -R 000 . 2>/dev/null; exit 0")) as result:
        assert facts(result) == ("sandbox_broken", "workdir_unusable")
        assert files_left(result)["new"] == b"mine\n"


def test_files_made_unreadable_are_the_agents_business_and_are_collected(cells: SpecimenCells) -> None:
    with closing(cells.shell("echo mine > new; chmod 000 new greet.sh notes")) as result:
        assert facts(result) == ("completed", "exit 0")
        assert {"new", "greet.sh", "notes/read me.txt"} <= set(files_left(result))


def test_a_full_disk_is_an_error_of_whoever_filled_it(cells: SpecimenCells) -> None:
    with closing(cells.shell("yes > fill 2>/dev/null")) as result:
        assert facts(result) == ("harness_error", "exit 1")
        assert kinds(result) == ["disk_full"]
        assert result.sealed.facts["disk"]["free_mb"] == 0


def test_a_disk_without_room_for_another_file_is_told(cells: SpecimenCells) -> None:
    script = 'i=0; while [ $i -lt 100000 ]; do : > "f$i" || break; i=$((i+1)); done'
    with closing(cells.shell(script)) as result:
        assert facts(result) == ("harness_error", "exit 2")
        assert kinds(result) == ["inodes_full"]


def test_a_harness_that_goes_on_with_a_full_disk_may_still_complete(cells: SpecimenCells) -> None:
    with closing(cells.shell("yes > fill 2>/dev/null; rm fill; echo done > new")) as result:
        assert facts(result) == ("completed", "exit 0") and kinds(result) == []


def test_everything_in_the_work_directory_may_be_deleted(cells: SpecimenCells) -> None:
    with closing(cells.shell("rm -rf ./* ./.[!.]*; ls -A | wc -l")) as result:
        assert facts(result) == ("completed", "exit 0")
        assert files_left(result) == {}


def test_a_fork_bomb_ends_with_the_cell(cells: SpecimenCells) -> None:
    with closing(cells.shell("b() { b | b & }; b; sleep 100", wall_s=1.0)) as result:
        assert facts(result)[0] in ("wall_limit", "harness_error")


def test_an_agent_that_is_killed_for_memory_says_so_and_the_cell_goes_on_to_its_seal(cells: SpecimenCells) -> None:
    greedy = "python3 -c 'hold = [bytearray(1 << 20) for _ in range(2000)]'"
    with closing(cells.shell(f"{greedy}; echo $? > code")) as result:
        assert files_left(result)["code"] == b"137\n"
        counters: dict[str, Any] = result.sealed.facts["counters"]
        assert counters["oom_kills"] == 1 and result.sealed.facts["ended"] == "completed"
    with closing(cells.shell(f"exec {greedy}")) as killed:
        assert facts(killed)[0] == "harness_error" and "for memory" in facts(killed)[1]
