"""Clocks that jump: order, identities and verdicts do not depend on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, documents
from cells.evidence.study_store import StudyStore
from cells.evidence.verify import verify_path

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def ticking() -> Iterator[datetime]:
    moment = NOON
    while True:
        yield moment
        moment += timedelta(seconds=1)


def backwards() -> Iterator[datetime]:
    moment = NOON
    while True:
        yield moment
        moment -= timedelta(hours=1)


def jumping() -> Iterator[datetime]:
    while True:
        yield NOON + timedelta(days=1)
        yield NOON - timedelta(days=1)


def frozen() -> Iterator[datetime]:
    while True:
        yield NOON


def run(place: Path, clock: Callable[[], datetime]) -> list[tuple[object, ...]]:
    """What a small study is, but for its times: order, kinds, subjects, digests, verdicts."""
    root = StudiesRoot.ensure(place, new_id="root")
    StudyStore.create(root, "s", documents("s"))
    store = StudyStore(root, "s", clock=clock)
    with store.writing():
        for number in range(3):
            add_attempt(store, Specimen(task=f"t{number}", verdict="not_run" if number == 1 else "resolved"))
    assert verify_path(store.path).problems == []
    rows = [(row.seq, row.kind, row.subject, row.digest) for row in store.ledger.rows()[1:]]
    accepted = [(unit.path, unit.digest, unit.detail["verdict"]) for unit in store.accepted().values()]
    return [*rows, *accepted]


@pytest.mark.parametrize("clock", [backwards, jumping, frozen])
def test_a_clock_decides_nothing(tmp_path: Path, clock: Callable[[], Iterator[datetime]]) -> None:
    steady, other = ticking(), clock()
    assert run(tmp_path / "steady", lambda: next(steady)) == run(tmp_path / "other", lambda: next(other))
