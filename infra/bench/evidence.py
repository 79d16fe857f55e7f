"""How fast evidence is read and written: verification, resume scan, catalog, publishing beyond its fsyncs.

    .venv/bin/python -m infra.bench.evidence [--json] [--cells 10000] [--bundles 1000] [--place DIR]

Targets on 2 cores, warm cache: verify 1,000 bundles of 10 small files < 10 s; resume scan of 10,000 accepted cells <
3 s; catalog rebuild of
10,000 < 5 s; publish p50 beyond its fsyncs < 15 ms a bundle.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cells.evidence.catalog import rebuild
from cells.evidence.fs_real import RealFileSystem
from cells.evidence.manifest import build_statement
from cells.evidence.publish import publish
from cells.evidence.roots import StudiesRoot
from cells.evidence.specimen import Specimen, add_attempt, empty_study
from cells.evidence.study_store import StudyStore
from cells.evidence.verify import verify_path
from cells.evidence.verify_study import bundle_problems

TARGETS = {"verify_s": 10.0, "resume_scan_s": 3.0, "catalog_s": 5.0, "publish_beyond_fsync_p50_ms": 15.0}


@dataclass
class TimedFsync(RealFileSystem):
    """The real file system, with the time spent in fsync kept apart."""

    seconds: float = 0.0
    skip: bool = field(default=False)
    """Make specimens without waiting for the disk: they are no evidence."""

    def fsync(self, handle: int) -> None:
        started = time.perf_counter()
        if not self.skip:
            super().fsync(handle)
        self.seconds += time.perf_counter() - started

    def sync_directory(self, path: Path) -> None:
        started = time.perf_counter()
        if not self.skip:
            super().sync_directory(path)
        self.seconds += time.perf_counter() - started


def measure(place: Path, cells: int, bundles: int) -> dict[str, float]:
    """All figures, in seconds and milliseconds."""
    store = filled(place, cells)
    figures = {"cells": float(cells), "bundles": float(bundles)}
    units = [store.bundle(unit) for unit in list(store.accepted().values())[:bundles]]
    figures["verify_s"] = best(lambda: sum(len(bundle_problems(bundle)) for bundle in units))
    figures["files_a_bundle"] = float(sum(1 for path in units[0].rglob("*") if path.is_file()))
    figures["resume_scan_s"] = best(lambda: len(StudyStore.open(StudiesRoot.open(place), store.name).accepted()))
    figures["catalog_s"] = best(lambda: len(rebuild(StudyStore.open(StudiesRoot.open(place), store.name))))
    started = time.perf_counter()
    assert verify_path(store.path).ok
    figures["verify_study_s"] = time.perf_counter() - started
    figures |= publishing(place, 200)
    return figures


def filled(place: Path, cells: int) -> StudyStore:
    """A study of so many accepted cells."""
    empty_study(place, "bench")
    store = StudyStore(StudiesRoot.open(place), "bench", fs=TimedFsync(skip=True))
    with store.writing():
        for number in range(cells):
            add_attempt(store, Specimen(task=f"task-{number:05d}"))
    return store


def publishing(place: Path, rounds: int) -> dict[str, float]:
    """Milliseconds of `publish` for a bundle of ten small files: all of it, and without its fsyncs."""
    whole, beyond = [], []
    for number in range(rounds):
        stage = place / f"stage-{number}"
        for name in ("start", "live", "post"):
            (stage / name).mkdir(parents=True)
            for part in range(3):
                (stage / name / f"{part}.json").write_bytes(b"x" * 2000)
        (stage / "run_meta.json").write_bytes(b"{}")
        fs = TimedFsync()
        started = time.perf_counter()
        publish(stage, place / f"unit-{number}", build_statement(stage, "note", {"n": number}, fs), fs)
        whole.append(1000 * (time.perf_counter() - started))
        beyond.append(whole[-1] - 1000 * fs.seconds)
    return {
        "publish_p50_ms": statistics.median(whole),
        "publish_beyond_fsync_p50_ms": statistics.median(beyond),
        "publish_beyond_fsync_p95_ms": sorted(beyond)[int(0.95 * len(beyond))],
    }


def best(call: Callable[[], int], times: int = 3) -> float:
    """The shortest of some runs: the cache is warm, other work on the machine is not ours."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return min(found)


@contextmanager
def somewhere(given: Path | None) -> Iterator[Path]:
    """A directory for the specimens, removed afterwards."""
    made = Path(tempfile.mkdtemp(prefix="assay-bench-", dir=given))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def main() -> int:
    """Measure and print; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--bundles", type=int, default=1_000)
    parser.add_argument("--place", type=Path)
    asked = parser.parse_args()
    with somewhere(asked.place) as place:
        figures = measure(place, asked.cells, asked.bundles)
    missed = [name for name, target in TARGETS.items() if figures[name] > target]
    if asked.json:
        print(json.dumps({**figures, "missed": missed}, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:32} {value:10.3f}" + (f"  (target {TARGETS[name]:g})" if name in TARGETS else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
