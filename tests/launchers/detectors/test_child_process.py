"""The child as it runs: held by a real mechanism, asked in lines, dead when it is late or says too much."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from cells.errors import EnvironmentFault
from launchers.detectors.child_process import DetectorChild
from launchers.detectors.choice import find_mechanism, prove
from launchers.detectors.mechanism import Mechanism, interpreters
from launchers.detectors.messages import ChildGone

INTRODUCTION = {"v": 1, "detectors": {"no_write": {"action": "note", "settings": {"turns": 1}}}}
QUESTION = {"v": 1, "turn": 0, "detector": "no_write", "rows": [{"event": "tool_call", "turn": 0, "tool_name": "bash"}]}
root_only = pytest.mark.skipif(os.getuid() != 0, reason="another user's process needs root")
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
HELD = [pytest.param("bwrap", marks=needs_bwrap), pytest.param("uid", marks=root_only)]


def test_nothing_is_not_taken_for_a_wall() -> None:
    seen = prove(Mechanism("none", {}, interpreters()[0]))
    assert seen is not None
    assert "open " in seen and "verdict.txt" in seen


def test_none_is_given_only_when_it_is_asked_for_by_name() -> None:
    assert find_mechanism(("none",)).name == "none"
    with pytest.raises(EnvironmentFault, match="Install bubblewrap"):
        find_mechanism(())


@pytest.mark.parametrize("name", HELD)
def test_a_mechanism_that_is_chosen_was_proved(name: str) -> None:
    mechanism = find_mechanism((name,))
    assert mechanism.name == name
    assert prove(mechanism) is None
    assert all(mechanism.versions.values())


@pytest.mark.engine
def test_a_container_holds_where_bubblewrap_does_not() -> None:
    from launchers.engine import Engine
    from launchers.images import open_base_image

    image = open_base_image(Engine.connect()).image_id
    mechanism = find_mechanism(("container",), image, {"assay.role": "detector", "assay.study": "tests"})
    assert asyncio.run(_ask(mechanism)).startswith(b'{"v":1,"turn":0,"detector":"no_write","decision":"note"')


@pytest.mark.parametrize("name", HELD)
def test_a_held_child_answers(name: str) -> None:
    answer = asyncio.run(_ask(find_mechanism((name,))))
    assert answer.startswith(b'{"v":1,"turn":0,"detector":"no_write","decision":"note"')


async def _ask(mechanism: Mechanism) -> bytes:
    child = await DetectorChild.start(mechanism, INTRODUCTION)
    try:
        return await child.ask(QUESTION, 30)
    finally:
        await child.close()


class Scripted(Mechanism):
    """A child that runs another program than ours: how a broken or hostile one would behave."""

    def __init__(self, script: str) -> None:
        super().__init__("none", {}, interpreters()[0])
        object.__setattr__(self, "script", script)

    def command(self, arguments: object, program: Path | None = None, mark: str = "probe") -> list[str]:
        return [self.interpreter, "-I", "-S", "-c", self.__dict__["script"]]


READY = "import sys,time; sys.stdin.readline(); print('{}', flush=True); sys.stdin.readline();"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (READY + "time.sleep(600)", "no answer in 0.5 s"),
        (READY + "sys.exit(1)", "it ended"),
        (READY + "print('x' * 10**6)", "more than 262144 bytes"),
        (READY + "sys.stdout.write('no newline'); sys.stdout.flush(); sys.exit(0)", "it ended"),
    ],
)
def test_a_child_that_is_late_ends_or_floods_is_gone_for_good(script: str, reason: str) -> None:
    async def run() -> list[str]:
        child = await DetectorChild.start(Scripted(script), INTRODUCTION)
        said = []
        for _ in range(2):
            with pytest.raises(ChildGone) as caught:
                await child.ask(QUESTION, 0.5)
            said.append(str(caught.value))
        await child.close()
        await child.close()
        return said

    first, second = asyncio.run(run())
    assert reason in first
    assert second == first


def test_a_program_that_does_not_exist_is_a_child_that_is_gone() -> None:
    mechanism = Mechanism("none", {}, "/nonexistent/python3")
    with pytest.raises(ChildGone, match="cannot be started"):
        asyncio.run(_ask(mechanism))


@pytest.mark.parametrize("name", HELD)
def test_a_killed_child_leaves_no_process(name: str) -> None:
    async def run() -> str:
        child = await DetectorChild.start(find_mechanism((name,)), INTRODUCTION)
        home = child._home.name
        await child.close()
        return home

    home = asyncio.run(run())
    assert not [pid for pid in Path("/proc").glob("[0-9]*") if home in _command_line(pid)]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
