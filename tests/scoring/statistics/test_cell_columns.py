"""The cells table as the input of comparisons, from records and from Parquet alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cells.errors import EvidenceError
from scoring.compare import ComparisonPlan, PlannedComparison, compare_rows, compare_table
from scoring.statistics.arm_table import arm_table
from scoring.statistics.cell_columns import outcome_rows, read_cells
from scoring.statistics.estimate import Estimate
from scoring.statistics.outcomes import RowProblem

OUTCOMES = ("resolved", "f2p_fraction", "p2p_fraction", "cost")
PLAN = ComparisonPlan((PlannedComparison("a", "b", OUTCOMES),), seed=1)


def cell(task: str, arm: str, verdict: str | None, passed: int = 0, **other: Any) -> dict[str, Any]:
    graded = verdict in ("resolved", "unresolved")
    return {
        "task": task,
        "repository": f"repo-{task[0]}",
        "arm": arm,
        "sample": 1,
        "verdict": verdict,
        "contaminated": False,
        "resolved": int(verdict == "resolved") if graded else None,
        "f2p_passed": passed if graded else None,
        "f2p_total": 2 if graded else None,
        "f2p_fraction": passed / 2 if graded else None,
        "p2p_passed": 3 if graded else None,
        "p2p_total": 4 if graded else None,
        "cost": 0.25,
    } | other


CELLS = [
    cell("t1", "a", "unresolved"),
    cell("t1", "b", "resolved", 2),
    cell("t2", "a", "resolved", 2, f2p_total=0, f2p_passed=0, f2p_fraction=0.0),
    cell("t2", "b", "invalid"),
    cell("u1", "a", "unresolved", 1, contaminated=True),
    cell("u1", "b", "not_run"),
    cell("u2", "a", "resolved", 2),
    cell("u2", "b", "resolved", 1),
]


def parquet(directory: Path, cells: list[dict[str, Any]]) -> Path:
    path = directory / "cells.parquet"
    pq.write_table(pa.Table.from_pylist(cells), path)
    return path


def test_records_and_parquet_give_the_same_comparisons(tmp_path: Path) -> None:
    from_records = compare_rows(outcome_rows(CELLS, OUTCOMES), PLAN).as_json(details=True)
    from_parquet = compare_table(read_cells(parquet(tmp_path, CELLS), OUTCOMES), PLAN).as_json(details=True)
    assert from_parquet == from_records


def test_cells_without_a_verdict_have_no_value_and_are_counted_by_state() -> None:
    records: Any = compare_rows(outcome_rows(CELLS, OUTCOMES), PLAN).as_json(details=True)["comparisons"]
    resolved, fraction, kept, cost = records
    assert (resolved["n_pairs"], resolved["n_unpaired"], resolved["n_missing"]) == (2, 2, 2)
    assert resolved["details"]["treatment_cells"]["states"] == {"invalid": 1, "not_run": 1, "valid": 2}
    assert fraction["details"]["control_cells"]["zero_totals"] == 1
    assert (kept["mean_control"], cost["mean_control"]) == (0.75, 0.25)
    assert resolved["details"]["control_cells"]["contaminated"] == 1


def test_a_cell_without_a_repository_is_a_cluster_of_its_own(tmp_path: Path) -> None:
    cells = [{**one, "repository": None} for one in CELLS]
    table = read_cells(parquet(tmp_path, cells), ("resolved",))
    assert sorted(table.cluster.names) == ["t1", "t2", "u1", "u2"]
    assert {row.cluster for row in outcome_rows(cells, ("resolved",))} == {None}


def test_only_the_arms_asked_for_are_read(tmp_path: Path) -> None:
    assert read_cells(parquet(tmp_path, CELLS), ("resolved",), ["a"]).arm.names == ("a",)


def test_a_table_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    cells = [{name: value for name, value in one.items() if name != "f2p_total"} for one in CELLS]
    with pytest.raises(EvidenceError, match="no column f2p_total"):
        read_cells(parquet(tmp_path, cells), ("f2p_fraction",))


def test_a_nan_that_is_not_null_is_refused_by_row(tmp_path: Path) -> None:
    cells = [*CELLS, cell("u3", "a", "resolved", f2p_fraction=float("nan"))]
    with pytest.raises(RowProblem, match="row 9, column `f2p_fraction`: found nan"):
        read_cells(parquet(tmp_path, cells), ("f2p_fraction",))


def test_a_duplicate_cell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RowProblem, match="a second time"):
        read_cells(parquet(tmp_path, [*CELLS, CELLS[0]]), ("resolved",))


def test_the_table_of_arms_states_every_denominator(tmp_path: Path) -> None:
    table = read_cells(parquet(tmp_path, CELLS), OUTCOMES)
    first, second = arm_table(table, 0, "resolved", 0.05)
    assert (first.arm, first.tasks, second.tasks) == ("a", 4, 2)
    assert (second.denominators.expected, second.denominators.valid, second.denominators.missing) == (4, 2, 2)
    assert isinstance(first.means.clustered, Estimate) and first.means.clustered.value == 0.5
    assert [one.k for one in first.passes] == [1] and first.quantiles == {}


def test_amounts_have_quantiles_and_no_pass_rates(tmp_path: Path) -> None:
    (cost, _) = arm_table(read_cells(parquet(tmp_path, CELLS), OUTCOMES), 0, "cost", 0.05)
    median = cost.quantiles[0.5]
    assert isinstance(median, Estimate) and median.value == 0.25
    assert cost.passes == () and np.isfinite(median.value)
