"""Files of paired outcomes made elsewhere (TSV, CSV, Parquet; one row a task and sample), read by a mapping of columns.

Rules:
1. The mapping names every column that is read; a column that is not there is refused, and nothing is guessed from
   values.
2. An empty field (TSV, CSV) or null (Parquet) is a missing value. NaN, infinities and words are refused by file, row
   and column.
3. A column called `<stem>_fraction` is checked against `<stem>_passed` and `<stem>_total` where the file has both:
   whole counts, passed <= total, the quotient agrees to 1e-9; a total of 0 follows `zero_total` and is counted.
4. Rows are counted from 1, after the header.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from cells.toml_file import load_toml
from scoring.statistics.column_file import ColumnFile, column_names, read_column_file
from scoring.statistics.estimate import FloatArray, IntArray
from scoring.statistics.fractions import ZeroTotal
from scoring.statistics.outcomes import (
    ALLOWED,
    VALID,
    Labels,
    OutcomeKind,
    OutcomeTable,
    first_conflict,
    first_not_allowed,
    first_repeat,
    kind_of,
)

_QUOTIENT_TOLERANCE = 1e-9
_COUNT = "a whole number that is not negative"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OutcomeColumns(_Section):
    """[outcomes.NAME]: the columns of the two arms.

    `kind` is needed where the name does not say it (20-interface, cells table).
    """

    control: str
    treatment: str
    kind: Annotated[OutcomeKind | None, Field(strict=False)] = None


class ColumnMapping(_Section):
    """A mapping file. Without `cluster` every task is its own; without `sample` a task may stand once in a group.

    `planned` is the user's own statement that the comparisons were fixed before the outcomes were seen.
    """

    group: Annotated[tuple[str, ...], Field(strict=False)] = ()
    task: str
    cluster: str | None = None
    sample: str | None = None
    control_name: str = "control"
    treatment_name: str = "treatment"
    zero_total: Annotated[ZeroTotal, Field(strict=False)] = ZeroTotal.ZERO
    planned: bool = False
    outcomes: Annotated[dict[str, OutcomeColumns], Field(min_length=1)]


def load_mapping(path: Path) -> ColumnMapping:
    """Read a mapping file. InputFileError (exit 2) names line and key."""
    mapping, _ = load_toml(path, ColumnMapping)
    return mapping


def read_outcome_file(path: Path, mapping: ColumnMapping) -> tuple[OutcomeTable, dict[str, OutcomeKind]]:
    """The file as a table of cells, control rows first, and the kinds of its outcomes. Raises InputFileError."""
    kinds = {name: columns.kind or kind_of(name) for name, columns in mapping.outcomes.items()}
    companions = _companions(column_names(path), mapping)
    named = [*mapping.group, mapping.task, *filter(None, (mapping.cluster, mapping.sample))]
    sides = [side for columns in mapping.outcomes.values() for side in (columns.control, columns.treatment)]
    file = read_column_file(path, [*named, *sides, *(name for pair in companions.values() for name in pair)])
    totals = {side: _checked_total(file, side, companions.get(side)) for side in sides}
    values = {
        side: _checked_values(file, side, kinds[name], totals[side], mapping.zero_total)
        for name, columns in mapping.outcomes.items()
        for side in (columns.control, columns.treatment)
    }
    return _table(file, mapping, values, {side: total for side, (_, total) in totals.items()}), kinds


def _companions(known: tuple[str, ...], mapping: ColumnMapping) -> dict[str, tuple[str, str]]:
    found = {}
    for columns in mapping.outcomes.values():
        for side in (columns.control, columns.treatment):
            stem = side.removesuffix("_fraction")
            if stem != side and f"{stem}_passed" in known and f"{stem}_total" in known:
                found[side] = (f"{stem}_passed", f"{stem}_total")
    return found


def _checked_total(file: ColumnFile, side: str, companions: tuple[str, str] | None) -> tuple[FloatArray, FloatArray]:
    if companions is None:
        return np.full(len(file), np.nan), np.full(len(file), np.nan)
    passed, total = (_counts(file, name) for name in companions)
    excess = np.flatnonzero(passed > total)
    if len(excess):
        row = int(excess[0])
        found = f"{passed[row]:.0f} passed of a total of {total[row]:.0f} ({companions[1]})"
        file.refuse(row, companions[0], found, "passed <= total")
    return passed, total


def _counts(file: ColumnFile, name: str) -> FloatArray:
    counts, given = file.numbers(name, _COUNT)
    wrong = np.flatnonzero(given & (~np.isfinite(counts) | (counts < 0) | (counts != np.rint(counts))))
    if len(wrong):
        file.refuse(int(wrong[0]), name, f"{counts[wrong[0]]:g}", _COUNT)
    return counts


def _checked_values(
    file: ColumnFile, side: str, kind: OutcomeKind, counts: tuple[FloatArray, FloatArray], zero_total: ZeroTotal
) -> FloatArray:
    values, given = file.numbers(side, f"{ALLOWED[kind]}, or nothing")
    wrong = first_not_allowed(values, given, kind)
    if wrong is not None:
        file.refuse(wrong, side, f"{values[wrong]:g}", f"{ALLOWED[kind]}, or nothing")
    passed, total = counts
    expected = np.divide(passed, total, out=np.where(total == 0, 0.0, np.nan), where=total > 0)
    differs = np.flatnonzero(given & (np.abs(values - expected) > _QUOTIENT_TOLERANCE))
    if len(differs):
        row = int(differs[0])
        file.refuse(row, side, f"{values[row]:g} for {passed[row]:.0f} of {total[row]:.0f}", f"{expected[row]:.12g}")
    return np.where(total == 0, np.nan, values) if zero_total is ZeroTotal.MISSING else values


def _table(
    file: ColumnFile, mapping: ColumnMapping, values: dict[str, FloatArray], totals: dict[str, FloatArray]
) -> OutcomeTable:
    groups, group = _groups(file, mapping.group)
    task = file.labels(mapping.task)
    cluster = file.labels(mapping.cluster) if mapping.cluster else task
    sample = file.labels(mapping.sample).codes if mapping.sample else np.zeros(len(file), dtype=np.intp)
    _refuse_repeats(file, mapping, (group, task.codes, sample), task)
    _refuse_moved_tasks(file, mapping, group * len(task.names) + task.codes, cluster)
    rows = len(file)
    return OutcomeTable(
        groups=groups,
        group=np.tile(group, 2),
        task=Labels(task.names, np.tile(task.codes, 2)),
        cluster=Labels(cluster.names, np.tile(cluster.codes, 2)),
        arm=Labels((mapping.control_name, mapping.treatment_name), np.repeat(np.arange(2), rows)),
        sample=np.tile(sample, 2),
        values={
            name: np.concatenate([values[side.control], values[side.treatment]])
            for name, side in mapping.outcomes.items()
        },
        totals={
            name: np.concatenate([totals[side.control], totals[side.treatment]])
            for name, side in mapping.outcomes.items()
        },
        state=Labels((VALID,), np.zeros(2 * rows, dtype=np.intp)),
        contaminated=np.zeros(2 * rows, dtype=np.bool_),
    )


def _groups(file: ColumnFile, columns: tuple[str, ...]) -> tuple[tuple[dict[str, str], ...], IntArray]:
    parts = [file.labels(name) for name in columns]
    if not parts:
        return ({},), np.zeros(len(file), dtype=np.intp)
    rows = np.stack([part.codes for part in parts], axis=1)
    _, firsts, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    labels = tuple(
        {name: part.names[part.codes[row]] for name, part in zip(columns, parts, strict=True)} for row in firsts[order]
    )
    return labels, rank[inverse.ravel()]


def _refuse_repeats(file: ColumnFile, mapping: ColumnMapping, keys: tuple[IntArray, ...], task: Labels) -> None:
    second = first_repeat(*keys)
    if second is not None:
        allowed = (
            "each task and sample once in a group"
            if mapping.sample
            else "each task once in a group (or map a `sample` column)"
        )
        file.refuse(second, mapping.task, f"{task.at(second)} a second time", allowed)


def _refuse_moved_tasks(file: ColumnFile, mapping: ColumnMapping, keys: IntArray, cluster: Labels) -> None:
    moved = first_conflict(keys, cluster.codes) if mapping.cluster else None
    if moved is not None:
        found = cluster.at(moved)
        file.refuse(moved, mapping.cluster or "", found, "one cluster a task, as in the task's first row")
