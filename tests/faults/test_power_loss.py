"""Power loss, simulated: whatever was not fsynced may be gone, torn or reordered; what was promised is there, what
is there is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from cells.errors import AssayError
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.fs import FileSystem, create_durable, make_directories, write_handle
from cells.evidence.fs_faults import Step, SteppedFileSystem
from cells.evidence.fs_model import ModelFileSystem
from cells.evidence.locks import NoLocks
from cells.evidence.manifest import CORE, verify_bundle
from cells.evidence.roots import StudiesRoot
from cells.evidence.study_store import StudyStore
from cells.evidence.units import begin_attempt, publish_unit, reconcile

ROOT = StudiesRoot(Path("/studies"), "root", "sha256:0", "/studies")
CELLS = 3


class PowerLoss(BaseException):
    """The lights are out."""


def store_on(fs: FileSystem) -> StudyStore:
    return StudyStore(ROOT, "s", fs=fs, locks=NoLocks())


def new_study() -> ModelFileSystem:
    fs = ModelFileSystem()
    study = ROOT.path / "s"
    make_directories(fs, study)
    create_durable(fs, study / "plan.lock.json", b'{"v":1}')
    fs.sync_directory(study)
    store_on(fs).ledger.append("planned", "plan.lock.json", digest_bytes(b'{"v":1}'), {"layout": 1})
    return fs


def publish_cells(fs: FileSystem, promised: set[str]) -> None:
    """What `assay run` does, in small: settle leftovers, then an attempt for every cell that has none; members are
    not fsynced."""
    store = store_on(fs)
    with store.writing():
        reconcile(store)
        for number in range(CELLS):
            cell = f"c{number}"
            if cell in store.accepted():
                continue
            stage = begin_attempt(store, cell, {"cell_id": cell})
            for name in CORE["attempt"]:
                path = stage.path / (f"{name}origin.json" if name.endswith("/") else name)
                make_directories(fs, path.parent)
                handle = fs.create(path)
                write_handle(fs, handle, canonical_json({"cell": cell, "attempt": stage.name, "fill": "x" * 700}))
                fs.close(handle)
            ids = {"cell": cell, "cell_id": cell, "attempt": stage.name, "verdict": "resolved", "runtime": "sha256:r"}
            promised.add(publish_unit(store, stage, "attempt", ids).path)


def cut_at(number: int) -> SteppedFileSystem:
    def before(step: Step) -> None:
        if step.number == number:
            raise PowerLoss

    return SteppedFileSystem(new_study(), before)


def steps() -> int:
    counted = SteppedFileSystem(new_study(), lambda step: None)
    publish_cells(counted, set())
    return counted.steps


def cut_and_recover(seed: int, total: int) -> None:
    rng = Random(seed)
    model = new_study()
    at = rng.randrange(1, total + 1)
    promised: set[str] = set()

    def before(step: Step) -> None:
        if step.number == at:
            raise PowerLoss

    with pytest.raises(PowerLoss):
        publish_cells(SteppedFileSystem(model, before), promised)
    after = model.crash(rng)
    for unit in store_on(after).history().units.values():
        assert verify_bundle(store_on(after).bundle(unit), after) == [], f"accepted something half: seed {seed}"
    assert promised <= store_on(after).history().units.keys(), f"lost what was promised: seed {seed}"
    publish_cells(after, set())
    store = store_on(after)
    assert len(store.accepted()) == CELLS, f"seed {seed}"
    assert all(verify_bundle(store.bundle(unit), after) == [] for unit in store.accepted().values())
    assert store.ledger.verify() == []


def seeds(count: int) -> Iterator[int]:
    yield from range(count)


@pytest.mark.requirement(5)
def test_some_hundred_power_cuts() -> None:
    total = steps()
    for seed in seeds(250):
        cut_and_recover(seed, total)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_ten_thousand_power_cuts() -> None:
    total = steps()
    for seed in seeds(10_000):
        cut_and_recover(seed, total)


def test_the_model_forgets_what_was_not_fsynced() -> None:
    """The model itself can lose: otherwise the campaign above could not fail."""
    lost_name = lost_bytes = 0
    for seed in range(50):
        fs = ModelFileSystem()
        fs.make_directory(Path("/d"))
        fs.sync_directory(Path("/"))
        handle = fs.create(Path("/d/f"))
        write_handle(fs, handle, b"x" * 2000)
        fs.close(handle)
        after = fs.crash(Random(seed))
        status = after.status(Path("/d/f"))
        lost_name += status is None
        lost_bytes += status is not None and after.read(after.open_plain(Path("/d/f")), 4000) != b"x" * 2000
    assert lost_name > 10 and lost_bytes > 10


def test_a_publisher_that_forgets_an_fsync_is_caught_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take one fsync away and the campaign turns red."""
    monkeypatch.setattr("cells.evidence.publish._fsync", lambda fs, handle, stage: None)
    total = steps()
    with pytest.raises((AssertionError, AssayError)):
        for seed in range(200):
            cut_and_recover(seed, total)
