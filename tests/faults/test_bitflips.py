"""Bit flips in every file of a golden bundle and its ledger: each is detected, and the check changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from cells.evidence.design_binding import tree_digest
from cells.evidence.specimen import specimen_study
from cells.evidence.study_store import StudyStore
from cells.evidence.verify import verify_path
from cells.evidence.verify_study import bundle_problems

Flip = tuple[Path, int, int]


def golden(place: Path) -> tuple[StudyStore, Path]:
    store = specimen_study(place / "studies", "golden", cells=1)
    bundle = store.bundle(next(iter(store.accepted().values())))
    for path in [store.root.path / "root.json", *store.path.rglob("*")]:
        if path.is_file():
            path.chmod(0o640)
    return store, bundle


def files_of(store: StudyStore, bundle: Path) -> list[Path]:
    frozen = [store.path / name for name in ("ledger.jsonl", "study.json", "plan.lock.json")]
    return [*sorted(path for path in bundle.rglob("*") if path.is_file()), *frozen]


def every_flip(files: list[Path], bits: range) -> Iterator[Flip]:
    for path in files:
        for offset in range(path.stat().st_size):
            for bit in bits:
                yield path, offset, bit


def undetected(store: StudyStore, bundle: Path, flips: Iterator[Flip]) -> tuple[int, list[Flip]]:
    """How many flips were tried, and those that no check saw: members by the bundle alone, the rest by the study."""
    tried, missed = 0, []
    for path, offset, bit in flips:
        content = path.read_bytes()
        path.write_bytes(content[:offset] + bytes([content[offset] ^ 1 << bit]) + content[offset + 1 :])
        inside = path.is_relative_to(bundle)
        if not (bundle_problems(bundle) if inside else verify_path(store.path).problems):
            missed.append((path, offset, bit))
        path.write_bytes(content)
        tried += 1
    return tried, missed


@pytest.mark.requirement(40)
def test_sampled_flips_are_detected(place: Path) -> None:
    store, bundle = golden(place)
    before = tree_digest(store.path)
    flips = Random(5).sample(list(every_flip(files_of(store, bundle), range(8))), 900)
    assert undetected(store, bundle, iter(flips)) == (900, [])
    assert tree_digest(store.path) == before


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_every_bit_of_every_file(place: Path) -> None:
    store, bundle = golden(place)
    before = tree_digest(store.path)
    tried, missed = undetected(store, bundle, every_flip(files_of(store, bundle), range(8)))
    print(f"{tried} bits flipped")
    assert tried >= 50_000
    assert missed == []
    assert tree_digest(store.path) == before


def test_a_flip_in_the_root_s_identity_is_seen_from_the_root(place: Path) -> None:
    store, _ = golden(place)
    path = store.root.path / "root.json"
    content = path.read_bytes()
    for offset in range(len(content)):
        path.write_bytes(content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :])
        assert not verify_path(store.root.path).ok, f"offset {offset}: {content[offset : offset + 1]!r}"
    path.write_bytes(content)
    assert verify_path(store.root.path).ok


@pytest.mark.requirement(38)
def test_truncated_deleted_added_swapped_renamed_members_are_detected(place: Path) -> None:
    store, bundle = golden(place)
    for path in [bundle, *bundle.rglob("*")]:
        if path.is_dir():
            path.chmod(0o750)
    members = [path for path in files_of(store, bundle) if path.is_relative_to(bundle)]
    for path in members:
        content = path.read_bytes()
        for length in range(0, len(content), max(1, len(content) // 40)):
            path.write_bytes(content[:length])
            assert bundle_problems(bundle), f"{path} cut to {length}"
        path.write_bytes(content + b"\n")
        assert bundle_problems(bundle), f"{path} grew"
        path.unlink()
        assert bundle_problems(bundle), f"{path} deleted"
        path.write_bytes(content)
        path.rename(path.with_name("renamed"))
        assert bundle_problems(bundle), f"{path} renamed"
        path.with_name("renamed").rename(path)
        (path.parent / "added").write_bytes(b"")
        assert bundle_problems(bundle), f"file added beside {path}"
        (path.parent / "added").unlink()
    for one, other in pairwise(members):
        swapped = one.read_bytes(), other.read_bytes()
        one.write_bytes(swapped[1])
        other.write_bytes(swapped[0])
        assert bundle_problems(bundle) or swapped[0] == swapped[1], f"{one} and {other} swapped"
        one.write_bytes(swapped[0])
        other.write_bytes(swapped[1])
    assert bundle_problems(bundle) == []
