"""The ledger torn at each byte, with rows lost, swapped and doubled: all seen; a torn tail recovered, nothing else
repaired."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from cells.errors import EvidenceError
from cells.evidence.ledger import LATEST, LEDGER, Ledger
from cells.evidence.specimen import specimen_study
from cells.evidence.verify import verify_path


@pytest.fixture
def study(place: Path) -> Path:
    return specimen_study(place, "s", cells=3).path


def lines_of(study: Path) -> list[bytes]:
    return (study / LEDGER).read_bytes().splitlines(keepends=True)


@pytest.mark.requirement(27)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.full)])
def test_a_tail_torn_at_each_byte_is_seen_and_recovered(study: Path, step: int) -> None:
    whole = (study / LEDGER).read_bytes()
    latest = (study / LATEST).read_bytes()
    start = len(whole) - len(lines_of(study)[-1])
    for length in range(start + 1, len(whole), step):
        (study / LEDGER).write_bytes(whole[:length])
        assert {problem.kind for problem in verify_path(study).problems} & {"torn_tail", "truncated"}
        row = Ledger.open(study).append("consumed", "x")
        rows = Ledger.open(study).rows()
        assert rows[-1] == row and rows[-2].kind == "recovered"
        assert (study / rows[-2].detail["kept"]).read_bytes() == whole[start:length]
        assert Ledger.open(study).verify() == []
        (study / LATEST).write_bytes(latest)


def test_a_hole_that_a_power_cut_left_is_a_torn_tail(study: Path) -> None:
    whole = (study / LEDGER).read_bytes()
    last = lines_of(study)[-1]
    (study / LEDGER).write_bytes(whole[: -len(last)] + bytes(100) + last[100:])
    (study / LATEST).unlink()
    Ledger.open(study).append("consumed", "x")
    assert [row.kind for row in Ledger.open(study).rows()][-2:] == ["recovered", "consumed"]


def damaged(study: Path) -> list[tuple[str, bytes]]:
    lines = lines_of(study)
    found = [(f"row {number} lost", [*lines[:number], *lines[number + 1 :]]) for number in range(len(lines))]
    found += [(f"row {number} doubled", [*lines[: number + 1], *lines[number:]]) for number in range(len(lines))]
    for one, other in combinations(range(len(lines)), 2):
        swapped = list(lines)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        found.append((f"rows {one} and {other} swapped", swapped))
    found += [(f"cut after row {number}", lines[:number]) for number in range(len(lines))]
    return [(what, b"".join(content)) for what, content in found]


@pytest.mark.requirement(28)
def test_every_lost_doubled_and_swapped_row_is_seen_and_nothing_is_repaired(study: Path) -> None:
    whole = (study / LEDGER).read_bytes()
    for what, content in damaged(study):
        (study / LEDGER).write_bytes(content)
        assert not verify_path(study).ok, what
        assert (study / LEDGER).read_bytes() == content
        if "swapped" in what or "doubled" in what:
            with pytest.raises(EvidenceError):
                Ledger.open(study).append("consumed", "x")
            assert (study / LEDGER).read_bytes() == content
    (study / LEDGER).write_bytes(whole)
    assert verify_path(study).ok
