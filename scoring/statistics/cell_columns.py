"""Cells tables (20-interface, "Columns of the cells table") as the input of comparisons, from records or from Parquet.

Rules:
1. A cell whose verdict is `invalid` or `not_run`, or that has none, has no value, and its state says which.
2. `p2p_fraction` is made of its counts; with the denominator 0 it is 0 (`fractions.ZeroTotal.ZERO`).
3. Only the columns and arms that are asked for are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cells.errors import EvidenceError
from cells.outcome import Verdict
from scoring.statistics.estimate import FloatArray
from scoring.statistics.outcomes import (
    ALLOWED,
    VALID,
    Labels,
    OutcomeRow,
    OutcomeTable,
    RowProblem,
    first_not_allowed,
    kind_of,
)

NO_VERDICT = "no_verdict"
"""The state of a row without a verdict (post-run work still open)."""
_PLACE = ("task", "repository", "arm", "sample", "verdict", "contaminated")
_TOTALS = {"f2p_fraction": "f2p_total", "p2p_fraction": "p2p_total"}
_DERIVED = {"p2p_fraction": ("p2p_passed", "p2p_total")}
_GRADED = (Verdict.RESOLVED.value, Verdict.UNRESOLVED.value)


def outcome_rows(cells: Iterable[Mapping[str, Any]], outcomes: Sequence[str]) -> list[OutcomeRow]:
    """Rows of a comparison from records with the columns of the cells table."""
    return [_row(cell, outcomes) for cell in cells]


def read_cells(path: Path, outcomes: Sequence[str], arms: Sequence[str] | None = None) -> OutcomeTable:
    """Columns of a comparison from a Parquet file or a directory of them (hive partitions are columns too).

    EvidenceError for a table without a column that is needed.
    """
    dataset = ds.dataset(path, format="parquet", partitioning="hive")
    needed = list(dict.fromkeys([*_PLACE, *(column for outcome in outcomes for column in _sources(outcome))]))
    missing = [column for column in needed if column not in dataset.schema.names]
    if missing:
        raise EvidenceError(f"{path}: no column {', '.join(missing)}; a cells table has them all")
    chosen = None if arms is None else ds.field("arm").isin(list(arms))
    return outcome_table(dataset.to_table(columns=needed, filter=chosen), outcomes)


def outcome_table(cells: pa.Table, outcomes: Sequence[str]) -> OutcomeTable:
    """The same from an Arrow table. RowProblem for a value that its outcome does not allow, or a cell given twice."""
    state = _encoded(_states(cells))
    graded = np.asarray([name == VALID for name in state.names], dtype=np.bool_)[state.codes]
    repository = pc.coalesce(_plain(cells["repository"]), _plain(cells["task"]))
    table = OutcomeTable(
        groups=({},),
        group=np.zeros(len(cells), dtype=np.intp),
        task=_encoded(cells["task"]),
        cluster=_encoded(repository),
        arm=_encoded(cells["arm"]),
        sample=_numbers(cells, "sample").astype(np.intp),
        values={name: np.where(graded, _values(cells, name), np.nan) for name in outcomes},
        totals={name: _numbers(cells, _TOTALS[name]) for name in outcomes if name in _TOTALS},
        state=state,
        contaminated=np.asarray(pc.fill_null(cells["contaminated"], False)).astype(np.bool_),
    )
    table.check()
    return table


def _values(cells: pa.Table, outcome: str) -> FloatArray:
    if outcome in _DERIVED:
        passed, total = (_numbers(cells, column) for column in _DERIVED[outcome])
        values = np.divide(passed, total, out=np.where(total == 0, 0.0, np.nan), where=total > 0)
        given = np.isfinite(passed + total)
    else:
        values, given = _numbers(cells, outcome), ~np.asarray(pc.is_null(cells[outcome]))
    wrong = first_not_allowed(values, given, kind_of(outcome))
    if wrong is not None:
        raise RowProblem(wrong + 1, outcome, f"{values[wrong]:g}", f"{ALLOWED[kind_of(outcome)]}, or nothing")
    return values


def _numbers(cells: pa.Table, column: str) -> FloatArray:
    numbers = pc.cast(cells[column], pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.float64)


def _states(cells: pa.Table) -> Any:
    verdict = pc.fill_null(_plain(cells["verdict"]), NO_VERDICT)
    return pc.if_else(pc.is_in(verdict, pa.array(_GRADED)), VALID, verdict)


def _encoded(column: Any) -> Labels:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    return Labels(tuple(map(str, encoded.dictionary.to_pylist())), np.asarray(encoded.indices, dtype=np.intp))


def _plain(column: Any) -> Any:
    return pc.cast(column, pa.string())


def _sources(outcome: str) -> tuple[str, ...]:
    own = _DERIVED.get(outcome, (outcome,))
    return (*own, *([_TOTALS[outcome]] if outcome in _TOTALS else []))


def _row(cell: Mapping[str, Any], outcomes: Sequence[str]) -> OutcomeRow:
    verdict = cell.get("verdict")
    graded = verdict in _GRADED
    return OutcomeRow(
        task=str(cell["task"]),
        arm=str(cell["arm"]),
        values={name: _value(cell, name) if graded else None for name in outcomes},
        cluster=None if cell.get("repository") is None else str(cell["repository"]),
        sample=int(cell["sample"]),
        state=VALID if graded else NO_VERDICT if verdict is None else str(verdict),
        contaminated=bool(cell.get("contaminated")),
        totals={name: cell.get(column) for name, column in _TOTALS.items()},
    )


def _value(cell: Mapping[str, Any], outcome: str) -> float | None:
    if outcome not in _DERIVED:
        return cell.get(outcome)
    passed, total = (cell.get(column) for column in _DERIVED[outcome])
    if passed is None or total is None:
        return None
    return float(passed / total) if total else 0.0
