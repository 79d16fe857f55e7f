"""EIO, ENOSPC, EDQUOT, EROFS, EINTR and short writes at each call: never a silent success, never something half that
is believed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cells.errors import AssayError
from cells.evidence.campaign import COMMANDS, Command, visible_damage
from cells.evidence.fs_faults import CHANGING, ERRORS, Before, SteppedFileSystem, fail_at, fail_from, short_write_at
from cells.evidence.fs_real import REAL
from cells.evidence.verify import verify_path


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def trial(command: Command, place: Path, before: Before, salt: str) -> str:
    """Run a command over a faulty disk, then over a sound one; what the first run said."""
    command.prepare(place, salt)
    held = open_files()
    try:
        command.act(place, SteppedFileSystem(REAL, before))
        said = "success"
    except (OSError, AssayError):
        said = "error"
    assert open_files() <= held + 1, "a descriptor was left open"
    assert visible_damage(place) == []
    if said == "success":
        assert command.done(place), "said that it succeeded, and nothing is there"
    command.act(place, REAL)
    assert command.done(place)
    assert verify_path(place).problems == []
    return said


def calls_of(command: Command, place: Path) -> list[str]:
    command.prepare(place, "count")
    calls: list[str] = []
    command.act(place, SteppedFileSystem(REAL, lambda step: calls.append(step.call)))
    return calls


def campaign(command: Command, place: Path, every: int) -> dict[str, int]:
    calls = calls_of(command, place / "count")
    every = every or max(11, len(calls) * len(ERRORS) // 30)
    said = {"error": 0, "success": 0}
    number = 0
    for step, call in enumerate(calls, start=1):
        faults: list[Before] = [fail_at(step, code) for code in ERRORS]
        if call in CHANGING:
            faults += [fail_from(step, code, CHANGING) for code in (errno.ENOSPC, errno.EROFS)]
        if call == "write":
            faults += [short_write_at(step, count) for count in (0, 1)]
        for fault in faults:
            number += 1
            if number % every == 0:
                said[trial(command, place / str(number), fault, str(number))] += 1
    print(f"{command.name}: {sum(said.values())} faults at {len(calls)} calls: {said}")
    return said


@pytest.mark.requirement(6)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_sampled_faults(name: str, place: Path) -> None:
    assert campaign(COMMANDS[name], place, every=0)["error"] > 0


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_fault_at_every_call(name: str, place: Path) -> None:
    assert campaign(COMMANDS[name], place, every=1)["error"] > 0
