"""The matrix of tasks and arms marks the pairs that differ and never shows a missing cell as a failure."""

from __future__ import annotations

import pytest

from scoring.report.analysis import analyse
from scoring.report.matrix import Entry, direction, entries, matrix, pairs_of, task_sets
from tests.scoring.report.synthetic import Synthetic, contents, plan

ALL, HALF, NONE, EMPTY = Entry(2, 2, 2, False), Entry(1, 2, 2, False), Entry(0, 2, 2, False), Entry(0, 0, 2, False)


@pytest.mark.parametrize(
    ("control", "treatment", "way"),
    [(NONE, ALL, 1), (ALL, HALF, -1), (HALF, HALF, 0), (EMPTY, ALL, None), (ALL, None, None), (None, None, None)],
)
def test_the_direction_of_a_pair(control: Entry | None, treatment: Entry | None, way: int | None) -> None:
    assert direction(control, treatment) == way


@pytest.mark.parametrize(
    ("entry", "shown"),
    [(ALL, "2/2"), (NONE, "0/2"), (EMPTY, "–"), (Entry(1, 1, 2, False), "1/1 of 2"), (Entry(1, 2, 2, True), "1/2 !")],
)
def test_an_entry_says_its_denominators(entry: Entry, shown: str) -> None:
    assert entry.shown == shown


def test_the_sets_of_tasks_are_what_the_comparison_counts() -> None:
    wanted = Synthetic()
    found = contents(wanted)
    analysis = analyse(found, plan(wanted))
    sets = task_sets(found, pairs_of(analysis))
    tests = analysis.comparisons.as_json()["comparisons"][0]  # type: ignore[index]
    assert [len(sets.get(f"1-{word}", ())) for word in ("up", "down", "tie")] == [
        tests[key] for key in ("n_up", "n_down", "n_tie")
    ]


def test_a_task_that_one_arm_lacks_is_unpaired() -> None:
    found = contents(Synthetic(missing=2))
    assert task_sets(found, [("control", "treatment")])["1-unpaired"] == ["task-00"]
    assert entries(found.compared)["task-00", "control"].shown == "–"


def test_rows_that_tie_are_marked_for_the_switch() -> None:
    wanted = Synthetic(rates={"control": 1.0, "treatment": 1.0})
    found = contents(wanted)
    assert matrix(found, analyse(found, plan(wanted))).count('<tr class="tie">') == 12
