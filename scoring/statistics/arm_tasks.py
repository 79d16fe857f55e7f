"""What each arm has on each task: task means, how many cells have a value, and every denominator.

Rules:
1. Samples of a task are averaged within the arm.
2. The design of a group is its tasks x its sample numbers, as far as any arm shows them; a cell of an arm without a
   value is missing.
3. Order of rows does not matter: tasks and clusters are sorted by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scoring.statistics.estimate import FloatArray, IntArray
from scoring.statistics.outcomes import Labels, OutcomeTable


@dataclass(frozen=True)
class GroupRows:
    """The rows of one comparison group, ordered for use: `arms` has the rows of each arm, `place` the task of each row
    of the table.

    `cluster` has one entry a task; `samples` is the number of samples of the design.
    """

    table: OutcomeTable
    tasks: tuple[str, ...]
    cluster: Labels
    samples: int
    place: IntArray
    arms: Mapping[str, IntArray]


@dataclass(frozen=True)
class ArmDenominators:
    """Every denominator of one arm, in cells: `expected` = `valid` + `missing`; `states` counts rows by state."""

    expected: int
    valid: int
    missing: int
    contaminated: int
    zero_totals: int
    states: dict[str, int]


@dataclass(frozen=True)
class ArmTasks:
    """One arm on one outcome. `means` is NaN where `valid` is 0; `cells` holds all values; `totals` the denominators by
    task.

    `totals` is NaN where it is unknown, and None with several samples a task.
    """

    arm: str
    tasks: tuple[str, ...]
    cluster: Labels
    samples: int
    means: FloatArray
    valid: IntArray
    cells: FloatArray
    totals: FloatArray | None
    denominators: ArmDenominators

    def filled(self, missing: float) -> FloatArray:
        """Task means over all cells of the design, every missing cell counted as this value."""
        known = np.where(self.valid > 0, self.means, 0.0) * self.valid
        return np.asarray((known + missing * (self.samples - self.valid)) / self.samples)


def group_rows(table: OutcomeTable, group: int) -> GroupRows:
    """Order the rows of a group, once for all its comparisons."""
    rows = np.flatnonzero(table.group == group)
    tasks, positions = _sorted_codes(table.task, rows)
    clusters, codes = _sorted_codes(table.cluster, rows)
    place = np.zeros(len(table), dtype=np.intp)
    place[rows] = positions
    by_task = np.zeros(len(tasks), dtype=np.intp)
    by_task[positions] = codes
    arms = {name: rows[table.arm.codes[rows] == code] for code, name in enumerate(table.arm.names)}
    samples = max(1, len(np.unique(table.sample[rows])))
    return GroupRows(table, tasks, Labels(clusters, by_task), samples, place, arms)


def arm_tasks(rows: GroupRows, arm: str, outcome: str, *, without_contaminated: bool = False) -> ArmTasks:
    """The tasks of one arm; an arm without a row has no value anywhere."""
    table, own = rows.table, rows.arms.get(arm, np.zeros(0, dtype=np.intp))
    values = table.values[outcome]
    usable = ~np.isnan(values[own])
    if without_contaminated:
        usable &= ~table.contaminated[own]
    used = own[usable]
    valid = np.bincount(rows.place[used], minlength=len(rows.tasks))
    sums = np.bincount(rows.place[used], weights=values[used], minlength=len(rows.tasks))
    means = np.full(len(rows.tasks), np.nan)
    np.divide(sums, valid, out=means, where=valid > 0)
    return ArmTasks(
        arm=arm,
        tasks=rows.tasks,
        cluster=rows.cluster,
        samples=rows.samples,
        means=means,
        valid=valid,
        cells=values[used],
        totals=_totals(rows, used, outcome),
        denominators=_denominators(rows, own, len(used), outcome),
    )


def _totals(rows: GroupRows, used: IntArray, outcome: str) -> FloatArray | None:
    totals = rows.table.totals.get(outcome)
    if totals is None or rows.samples > 1:
        return None
    by_task = np.full(len(rows.tasks), np.nan)
    by_task[rows.place[used]] = totals[used]
    return by_task


def _denominators(rows: GroupRows, own: IntArray, valid: int, outcome: str) -> ArmDenominators:
    table, expected = rows.table, rows.samples * len(rows.tasks)
    states = Counter(dict(enumerate(np.bincount(table.state.codes[own], minlength=len(table.state.names)).tolist())))
    totals = table.totals.get(outcome)
    return ArmDenominators(
        expected=expected,
        valid=valid,
        missing=expected - valid,
        contaminated=int(table.contaminated[own].sum()),
        zero_totals=0 if totals is None else int(np.count_nonzero(totals[own] == 0)),
        states={
            name: states[code]
            for code, name in sorted(enumerate(table.state.names), key=lambda at: at[1])
            if states[code]
        },
    )


def _sorted_codes(labels: Labels, rows: IntArray) -> tuple[tuple[str, ...], IntArray]:
    codes = labels.codes[rows]
    present = np.flatnonzero(np.bincount(codes, minlength=len(labels.names)))
    order = sorted(present.tolist(), key=labels.names.__getitem__)
    rank = np.zeros(len(labels.names), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return tuple(labels.names[code] for code in order), rank[codes]
