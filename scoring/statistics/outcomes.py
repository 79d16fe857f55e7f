"""The input of every comparison: one row a cell, or the same in columns; what an outcome's values may be.

Rules:
1. A value is a number or None; None is a cell without a valid verdict, and is never counted as 0.
2. NaN, infinities, values outside the outcome's kind, a cell given twice, and a task in two clusters are refused by row
   and field.
3. Tasks without a cluster are clusters of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from cells.errors import UsageError
from scoring.statistics.estimate import BoolArray, FloatArray, IntArray
from scoring.statistics.printable import printable

VALID = "valid"
"""The state of a cell with a verdict; other states are the words of the outcome table (`invalid`, `not_run`)."""


class OutcomeKind(StrEnum):
    """What the values of an outcome may be."""

    BINARY = "binary"
    FRACTION = "fraction"
    AMOUNT = "amount"
    NUMBER = "number"


ALLOWED = {
    OutcomeKind.BINARY: "0 or 1",
    OutcomeKind.FRACTION: "a number from 0 to 1",
    OutcomeKind.AMOUNT: "a finite number that is not negative",
    OutcomeKind.NUMBER: "a finite number",
}
_FRACTIONS = ("f2p_fraction", "p2p_fraction")
_AMOUNTS = (
    *("f2p_passed", "f2p_total", "p2p_passed", "p2p_total", "turns", "requests", "input_tokens", "cached_tokens"),
    *("output_tokens", "cost", "wall_s", "active_s", "run_s", "verify_s", "cpu_s", "memory_peak_mb", "cpu_throttled_s"),
    *("oom_kills", "host_load", "patch_bytes", "patch_files"),
)
_KINDS = (
    {"resolved": OutcomeKind.BINARY}
    | dict.fromkeys(_FRACTIONS, OutcomeKind.FRACTION)
    | dict.fromkeys(_AMOUNTS, OutcomeKind.AMOUNT)
)


def kind_of(outcome: str) -> OutcomeKind:
    """The kind of a column of the cells table; any other name is a plain number unless the caller says otherwise."""
    return _KINDS.get(outcome, OutcomeKind.NUMBER)


class RowProblem(UsageError):
    """A row of the input is wrong: `row` (1-based), `column`, what was found and what is allowed."""

    def __init__(self, row: int, column: str, found: object, allowed: str) -> None:
        super().__init__(printable(f"row {row}, column `{column}`: found {found}; allowed: {allowed}"))
        self.row, self.column, self.found, self.allowed = row, column, found, allowed


@dataclass(frozen=True)
class OutcomeRow:
    """One cell: its place in the design and its outcomes.

    `values` may leave an outcome out, which means None. `state` says why a value is None where the outcome table knows
    it. `totals` are the denominators of fractions, by outcome; a fraction with total 0 has the value of the stated
    rule.
    """

    task: str
    arm: str
    values: Mapping[str, float | None]
    cluster: str | None = None
    sample: int = 1
    group: Mapping[str, str] = field(default_factory=dict)
    state: str = VALID
    contaminated: bool = False
    totals: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Labels:
    """A column of names: each name once, and a code for each row."""

    names: tuple[str, ...]
    codes: IntArray

    def at(self, row: int) -> str:
        """The name in a row."""
        return self.names[int(self.codes[row])]

    @classmethod
    def of(cls, values: Iterable[str]) -> Labels:
        """Codes in the order of first appearance."""
        known: dict[str, int] = {}
        codes = [known.setdefault(value, len(known)) for value in values]
        return cls(tuple(known), np.asarray(codes, dtype=np.intp))


@dataclass(frozen=True)
class OutcomeTable:
    """Cells in columns, all of one length. `values` and `totals` hold NaN for None.

    `groups` are the comparison groups behind `group` codes.
    """

    groups: tuple[Mapping[str, str], ...]
    group: IntArray
    task: Labels
    cluster: Labels
    arm: Labels
    sample: IntArray
    values: Mapping[str, FloatArray]
    totals: Mapping[str, FloatArray]
    state: Labels
    contaminated: BoolArray

    @classmethod
    def of_rows(cls, rows: Sequence[OutcomeRow], kinds: Mapping[str, OutcomeKind]) -> OutcomeTable:
        """The columns of `rows`; `kinds` are the outcomes to take. Raises RowProblem."""
        groups = Labels.of(repr(sorted(row.group.items())) for row in rows)
        firsts = [int(np.flatnonzero(groups.codes == code)[0]) for code in range(len(groups.names))]
        table = cls(
            groups=tuple(dict(rows[index].group) for index in firsts),
            group=groups.codes,
            task=Labels.of(row.task for row in rows),
            cluster=Labels.of(row.task if row.cluster is None else row.cluster for row in rows),
            arm=Labels.of(row.arm for row in rows),
            sample=np.asarray([row.sample for row in rows], dtype=np.intp),
            values={name: _column(rows, name, kind) for name, kind in kinds.items()},
            totals={
                name: _with_nan([row.totals.get(name) for row in rows])
                for name in kinds
                if any(name in row.totals for row in rows)
            },
            state=Labels.of(row.state for row in rows),
            contaminated=np.asarray([row.contaminated for row in rows], dtype=np.bool_),
        )
        table.check()
        return table

    def __len__(self) -> int:
        return len(self.group)

    def check(self) -> None:
        """Raise RowProblem for a cell given twice, or for a task in two clusters of one group."""
        second = first_repeat(self.group, self.task.codes, self.arm.codes, self.sample)
        if second is not None:
            cell = f"{self.task.at(second)}/{self.arm.at(second)}/{self.sample[second]}"
            raise RowProblem(
                second + 1, "task", f"cell {cell} a second time", "each task, arm and sample once in a group"
            )
        moved = first_conflict(self.group * len(self.task.names) + self.task.codes, self.cluster.codes)
        if moved is not None:
            found = f"task {self.task.at(moved)} in {self.cluster.at(moved)}"
            raise RowProblem(moved + 1, "cluster", found, "one cluster a task, as in the task's first row")


def first_not_allowed(values: FloatArray, given: BoolArray, kind: OutcomeKind) -> int | None:
    """Index of the first given value that the kind does not allow."""
    wrong = ~np.isfinite(values)
    if kind is OutcomeKind.BINARY:
        wrong |= (values != 0) & (values != 1)
    elif kind is not OutcomeKind.NUMBER:
        wrong |= (values < 0) | (values > (1 if kind is OutcomeKind.FRACTION else np.inf))
    found = np.flatnonzero(wrong & given)
    return int(found[0]) if len(found) else None


def first_repeat(*columns: IntArray) -> int | None:
    """Index of the first row whose combination of codes stood in an earlier row."""
    if not len(columns[0]):
        return None
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        shifted = column - column.min()
        key = key * (int(shifted.max()) + 1) + shifted
        key = np.unique(key, return_inverse=True)[1]
    order = np.argsort(key, kind="stable")
    repeats = order[1:][key[order][1:] == key[order][:-1]]
    return int(repeats.min()) if len(repeats) else None


def first_conflict(keys: IntArray, codes: IntArray) -> int | None:
    """Index of the first row whose code differs from the code of the first row with the same key."""
    if not len(keys):
        return None
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    found = np.flatnonzero(codes != codes[firsts[inverse]])
    return int(found[0]) if len(found) else None


def _column(rows: Sequence[OutcomeRow], name: str, kind: OutcomeKind) -> FloatArray:
    raw = [row.values.get(name) for row in rows]
    given = np.asarray([value is not None for value in raw], dtype=np.bool_)
    column = _with_nan(raw)
    wrong = first_not_allowed(column, given, kind)
    if wrong is not None:
        raise RowProblem(wrong + 1, name, repr(raw[wrong]), f"{ALLOWED[kind]}, or nothing")
    return column


def _with_nan(raw: Sequence[float | None]) -> FloatArray:
    return np.asarray([np.nan if value is None else value for value in raw], dtype=np.float64)
