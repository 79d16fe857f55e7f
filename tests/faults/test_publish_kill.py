"""kill -9 at every step of every command that publishes: nothing half is believed, running it again finishes it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from cells.evidence.campaign import COMMANDS, Command, leftovers, visible_damage
from cells.evidence.fs_faults import SteppedFileSystem, kill_at
from cells.evidence.fs_real import REAL
from cells.evidence.verify import verify_path


def steps_of(command: Command, place: Path) -> int:
    """How many steps a whole run takes: found by running it, not by a list."""
    command.prepare(place, "count")
    counted = SteppedFileSystem(REAL, lambda step: None)
    command.act(place, counted)
    assert command.done(place)
    return counted.steps


def killed_at(command: Command, place: Path, step: int) -> bool:
    """Run a command in a child that is killed before a step; whether it was."""
    child = os.fork()
    if child == 0:
        try:
            command.act(place, SteppedFileSystem(REAL, kill_at(step)))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def campaign(command: Command, place: Path, salt: str, every: int) -> int:
    total = steps_of(command, place / "count")
    every = every or max(3, total // 25)
    offset = sum(salt.encode()) % every
    killed = 0
    for step in range(1 + offset, total + 1, every):
        here = place / f"{salt}-{step}"
        command.prepare(here, salt)
        killed += killed_at(command, here, step)
        assert visible_damage(here) == [], f"{command.name}: killed at step {step} of {total}, seed {salt}"
        command.act(here, REAL)
        assert command.done(here), f"{command.name}: not finished after step {step}, seed {salt}"
        assert verify_path(here).problems == []
        assert leftovers(here) == []
    print(f"{command.name}, seed {salt}: killed {killed} times, {total} steps")
    return killed


@pytest.mark.requirement(1)
@pytest.mark.requirement(2)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_killed_at_sampled_steps(name: str, place: Path) -> None:
    assert campaign(COMMANDS[name], place, "short", every=0) > 0


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.requirement(2)
@pytest.mark.parametrize("seed", ["one", "two", "three"])
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_killed_at_every_step(name: str, seed: str, place: Path) -> None:
    assert campaign(COMMANDS[name], place, seed, every=1) > 0
