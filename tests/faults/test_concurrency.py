"""Eight processes publish the same identity: one winner, the others say so, nothing is mixed."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from cells.errors import ConflictError
from cells.evidence.locks import Busy
from cells.evidence.manifest import build_statement, verify_bundle
from cells.evidence.publish import publish
from cells.evidence.roots import StudiesRoot
from cells.evidence.sequences import ATTEMPT, allocate
from cells.evidence.specimen import Specimen, add_attempt, empty_study
from cells.evidence.study_store import StudyStore

PROCESSES = 8
FORK = multiprocessing.get_context("fork")


def _publishers(place: Path, number: int, rounds: int, different: bool, barrier: Barrier) -> None:
    words = []
    for turn in range(rounds):
        stage = place / f"stage-{turn}-{number}"
        (stage / "inner").mkdir(parents=True)
        (stage / "a").write_bytes(b"%d" % (number if different else 0))
        (stage / "inner/b").write_bytes(b"x" * 5000)
        statement = build_statement(stage, "note", {"turn": turn})
        barrier.wait(60)
        try:
            words.append(type(publish(stage, place / f"unit-{turn}", statement)).__name__)
        except ConflictError:
            words.append("Conflict")
    (place / f"said-{number}").write_text("\n".join(words))


def rounds_of(place: Path, rounds: int, *, different: bool) -> list[list[str]]:
    """What the eight said, round by round."""
    barrier = FORK.Barrier(PROCESSES)
    workers = [
        FORK.Process(target=_publishers, args=(place, number, rounds, different, barrier))
        for number in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    said = [(place / f"said-{number}").read_text().split("\n") for number in range(PROCESSES)]
    return [sorted(words[turn] for words in said) for turn in range(rounds)]


def check(place: Path, rounds: int) -> None:
    (place / "same").mkdir()
    for turn, words in enumerate(rounds_of(place / "same", rounds, different=False)):
        assert words == ["Already"] * (PROCESSES - 1) + ["Published"]
        assert verify_bundle(place / f"same/unit-{turn}") == []
    (place / "other").mkdir()
    for turn, words in enumerate(rounds_of(place / "other", rounds, different=True)):
        assert words == ["Conflict"] * (PROCESSES - 1) + ["Published"]
        assert verify_bundle(place / f"other/unit-{turn}") == []


@pytest.mark.requirement(37)
def test_ten_rounds_of_equal_and_of_different_publishers(place: Path) -> None:
    check(place, 10)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_two_hundred_rounds(place: Path) -> None:
    check(place, 200)


def _writer(studies: Path, number: int, barrier: Barrier) -> None:
    store = StudyStore.open(StudiesRoot.open(studies), "s")
    barrier.wait(60)
    try:
        with store.writing():
            add_attempt(store, Specimen())
            time.sleep(0.2)  # hold it while the others ask
        word = "wrote"
    except (Busy, ConflictError) as error:
        word = type(error).__name__
    (studies / f"said-{number}").write_text(word)


@pytest.mark.requirement(10)
@pytest.mark.requirement(11)
def test_of_eight_writers_of_one_study_one_writes_and_the_others_are_told(place: Path) -> None:
    empty_study(place, "s")
    barrier = FORK.Barrier(PROCESSES)
    workers = [FORK.Process(target=_writer, args=(place, number, barrier)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    words = sorted((place / f"said-{number}").read_text() for number in range(PROCESSES))
    assert words.count("wrote") == 1 and set(words) <= {"wrote", "Busy", "ConflictError"}
    assert len(StudyStore.open(StudiesRoot.open(place), "s").accepted()) == 1


def _numbers(place: Path, number: int, count: int, barrier: Barrier) -> None:
    barrier.wait(60)
    names = [allocate(place, "cells/c", ATTEMPT) for _ in range(count)]
    (place / f"got-{number}").write_text("\n".join(names))


@pytest.mark.requirement(7)
@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.full)])
def test_eight_processes_never_get_the_same_number_and_leave_no_gap(place: Path, count: int) -> None:
    barrier = FORK.Barrier(PROCESSES)
    workers = [FORK.Process(target=_numbers, args=(place, number, count, barrier)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    names = [name for number in range(PROCESSES) for name in (place / f"got-{number}").read_text().split("\n")]
    assert sorted(names) == sorted(ATTEMPT.name(number) for number in range(1, PROCESSES * count + 1))
