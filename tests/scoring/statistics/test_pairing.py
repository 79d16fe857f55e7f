"""Laws of pairing: what must hold for every table of cells."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.compare import ComparisonPlan, PlannedComparison, compare_rows
from scoring.statistics.outcomes import OutcomeRow

PLAN = ComparisonPlan((PlannedComparison("a", "b", ("resolved", "f2p_fraction")),), seed=3, permutation_draws=99)
SWAPPED = ComparisonPlan((PlannedComparison("b", "a", ("resolved", "f2p_fraction")),), seed=3, permutation_draws=99)


@st.composite
def studies(draw: st.DrawFn) -> list[OutcomeRow]:
    """Cells of two arms: up to eight tasks, three clusters, three samples; some without a value."""
    rows = []
    samples = draw(st.integers(1, 3))
    for task in range(draw(st.integers(1, 8))):
        cluster = f"c{draw(st.integers(0, 2))}"
        for arm in "ab":
            for sample in range(1, samples + 1):
                verdict = draw(st.sampled_from([None, 0, 1]))
                passed = draw(st.integers(0, 4))
                fraction = None if verdict is None else passed / 4
                values = {"resolved": verdict, "f2p_fraction": fraction}
                rows.append(OutcomeRow(f"t{task}", arm, values, cluster=cluster, sample=sample))
    return rows


def records(rows: list[OutcomeRow], plan: ComparisonPlan = PLAN) -> list[dict[str, Any]]:
    found: Any = compare_rows(rows, plan).as_json(details=True)["comparisons"]
    return list(found)


@given(studies(), st.integers(0, 2**32))
def test_the_order_of_rows_changes_no_digit(rows: list[OutcomeRow], seed: int) -> None:
    mixed = list(rows)
    random.Random(seed).shuffle(mixed)
    assert records(mixed) == records(rows)


@given(studies())
def test_swapping_the_arms_turns_the_difference_and_keeps_the_exact_p_values(rows: list[OutcomeRow]) -> None:
    for one, other in zip(records(rows), records(rows, SWAPPED), strict=True):
        assert (one["n_pairs"], one["n_unpaired"], one["n_missing"]) == (
            other["n_pairs"],
            other["n_unpaired"],
            other["n_missing"],
        )
        assert (one["n_up"], one["control_only"]) == (other["n_down"], other["treatment_only"])
        if one["difference"] is not None:
            assert one["difference"] == pytest.approx(-other["difference"], abs=1e-12)
            assert one["p_sign"] == pytest.approx(other["p_sign"])
            assert one["bound_low"] == pytest.approx(-other["bound_high"], abs=1e-12)


@given(studies())
def test_every_task_is_a_pair_or_unpaired_or_missing_in_both_arms(rows: list[OutcomeRow]) -> None:
    for record in records(rows):
        sides = [record["details"][f"{arm}_cells"] for arm in ("control", "treatment")]
        assert all(side["valid"] + side["missing"] == side["expected"] for side in sides)
        assert sum(side["missing"] for side in sides) == record["n_missing"]
        assert record["n_pairs"] + record["n_unpaired"] <= record["details"]["tasks"]
        if record["both"] is not None:
            assert (
                sum(record[key] for key in ("both", "control_only", "treatment_only", "neither")) == record["n_pairs"]
            )


@given(studies())
def test_bounds_hold_whatever_the_missing_cells_would_have_been(rows: list[OutcomeRow]) -> None:
    record = records(rows)[0]
    if record["difference"] is None:
        return
    for value in (0, 1):
        filled = [
            replace(row, values={"resolved": value if row.values["resolved"] is None else row.values["resolved"]})
            for row in rows
        ]
        whole = records(filled, ComparisonPlan((PlannedComparison("a", "b"),), seed=3))[0]
        assert record["bound_low"] - 1e-12 <= whole["difference"] <= record["bound_high"] + 1e-12


@given(studies())
def test_an_invalid_cell_is_the_same_as_a_cell_that_is_not_there(rows: list[OutcomeRow]) -> None:
    present = [row for row in rows if row.values["resolved"] is not None]
    tasks = {row.task for row in present}
    kept = [row for row in rows if row.task in tasks]
    samples = {row.sample for row in kept}
    if samples != {row.sample for row in present} or {row.arm for row in present} != {"a", "b"}:
        return
    for one, other in zip(records(kept), records(present), strict=True):
        one["details"] = other["details"] = None
        assert one == other
