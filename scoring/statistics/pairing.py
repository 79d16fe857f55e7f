"""Pairs by task: what two arms measured on the same tasks, and every cell that has no partner, by name.

Rules:
1. Samples of a task are averaged within the arm; they are never pairs of their own.
2. A pair needs at least one value in both arms. A task with a value in one arm only is unpaired, and named.
3. A cell of the design (task x arm x sample, as far as any arm of the group shows it) without a value is missing.
4. Order of rows does not matter: tasks and clusters are sorted by name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from scoring.statistics.clusters import ClusterSums, cluster_sums
from scoring.statistics.estimate import BoolArray, FloatArray, IntArray
from scoring.statistics.outcomes import Labels, OutcomeTable


@dataclass(frozen=True)
class ArmDenominators:
    """Every denominator of one arm in one comparison, in cells: `expected` = `valid` + `missing`.

    `states` counts rows by state.
    """

    expected: int
    valid: int
    missing: int
    contaminated: int
    zero_totals: int
    states: dict[str, int]


@dataclass(frozen=True)
class TaskPairs:
    """Paired task means of one outcome. Arrays have one entry a task, tasks sorted by name.

    A mean is NaN where an arm has no value. `totals_differ` counts pairs whose denominators are known and not the same;
    None with several samples a task.
    """

    tasks: tuple[str, ...]
    cluster: Labels
    control: FloatArray
    treatment: FloatArray
    control_valid: IntArray
    treatment_valid: IntArray
    samples: int
    of_control: ArmDenominators
    of_treatment: ArmDenominators
    totals_differ: int | None

    @property
    def paired(self) -> BoolArray:
        """Which tasks have a value in both arms."""
        return np.asarray((self.control_valid > 0) & (self.treatment_valid > 0))

    @property
    def unpaired(self) -> tuple[str, ...]:
        """Tasks with a value in exactly one arm."""
        return self.named((self.control_valid > 0) != (self.treatment_valid > 0))

    @property
    def differences(self) -> FloatArray:
        """Treatment minus control, of the paired tasks."""
        return np.asarray((self.treatment - self.control)[self.paired])

    def named(self, chosen: BoolArray) -> tuple[str, ...]:
        """The names of the chosen tasks."""
        return tuple(self.tasks[index] for index in np.flatnonzero(chosen))

    def by_cluster(self) -> ClusterSums:
        """The differences of the pairs, summed by cluster."""
        return cluster_sums(self.cluster.names, self.cluster.codes[self.paired], self.differences)

    def bounds(self) -> tuple[float, float]:
        """The mean difference over all tasks with every missing cell counted against, and for, the treatment."""
        low = _filled(self.treatment, self.treatment_valid, self.samples, 0.0) - _filled(
            self.control, self.control_valid, self.samples, 1.0
        )
        high = _filled(self.treatment, self.treatment_valid, self.samples, 1.0) - _filled(
            self.control, self.control_valid, self.samples, 0.0
        )
        return float(low.mean()), float(high.mean())


def pair_tasks(
    table: OutcomeTable, group: int, arms: tuple[str, str], outcome: str, *, without_contaminated: bool = False
) -> TaskPairs:
    """Pair (control, treatment) in one group of the table. An arm without a row gives a side without values."""
    rows = np.flatnonzero(table.group == group)
    tasks, positions = _sorted_codes(table.task, rows)
    samples = len(np.unique(table.sample[rows])) if len(rows) else 1
    usable = ~np.isnan(table.values[outcome][rows])
    if without_contaminated:
        usable &= ~table.contaminated[rows]
    sides = [_side(table, rows, positions, usable, name, outcome, len(tasks)) for name in arms]
    expected = samples * len(tasks)
    return TaskPairs(
        tasks=tasks,
        cluster=_clusters(table, rows, positions, len(tasks)),
        control=sides[0][0],
        treatment=sides[1][0],
        control_valid=sides[0][1],
        treatment_valid=sides[1][1],
        samples=samples,
        of_control=_denominators(table, rows, arms[0], outcome, expected, int(sides[0][1].sum())),
        of_treatment=_denominators(table, rows, arms[1], outcome, expected, int(sides[1][1].sum())),
        totals_differ=_totals_differ(table, rows[usable], positions[usable], arms, outcome) if samples == 1 else None,
    )


def _side(
    table: OutcomeTable,
    rows: IntArray,
    positions: IntArray,
    usable: BoolArray,
    arm: str,
    outcome: str,
    tasks: int,
) -> tuple[FloatArray, IntArray]:
    chosen = usable & _of_arm(table, rows, arm)
    valid = np.bincount(positions[chosen], minlength=tasks)
    sums = np.bincount(positions[chosen], weights=table.values[outcome][rows[chosen]], minlength=tasks)
    means = np.full(tasks, np.nan)
    np.divide(sums, valid, out=means, where=valid > 0)
    return means, valid


def _of_arm(table: OutcomeTable, rows: IntArray, arm: str) -> BoolArray:
    if arm not in table.arm.names:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(table.arm.codes[rows] == table.arm.names.index(arm))


def _denominators(
    table: OutcomeTable, rows: IntArray, arm: str, outcome: str, expected: int, valid: int
) -> ArmDenominators:
    chosen = rows[_of_arm(table, rows, arm)]
    states = Counter(table.state.names[code] for code in table.state.codes[chosen])
    totals = table.totals.get(outcome)
    return ArmDenominators(
        expected=expected,
        valid=valid,
        missing=expected - valid,
        contaminated=int(table.contaminated[chosen].sum()),
        zero_totals=0 if totals is None else int(np.count_nonzero(totals[chosen] == 0)),
        states=dict(sorted(states.items())),
    )


def _totals_differ(
    table: OutcomeTable, rows: IntArray, positions: IntArray, arms: tuple[str, str], outcome: str
) -> int | None:
    totals = table.totals.get(outcome)
    if totals is None:
        return None
    sides = []
    for arm in arms:
        chosen = _of_arm(table, rows, arm)
        side = np.full(int(positions.max(initial=-1)) + 1, np.nan)
        side[positions[chosen]] = totals[rows[chosen]]
        sides.append(side)
    return int(np.count_nonzero(np.abs(sides[0] - sides[1]) > 0))


def _sorted_codes(labels: Labels, rows: IntArray) -> tuple[tuple[str, ...], IntArray]:
    present, inverse = np.unique(labels.codes[rows], return_inverse=True)
    names = [labels.names[code] for code in present]
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), dtype=np.intp)
    rank[order] = np.arange(len(names))
    return tuple(names[index] for index in order), rank[inverse] if len(names) else np.zeros(0, dtype=np.intp)


def _clusters(table: OutcomeTable, rows: IntArray, positions: IntArray, tasks: int) -> Labels:
    names, codes = _sorted_codes(table.cluster, rows)
    by_task = np.zeros(tasks, dtype=np.intp)
    by_task[positions] = codes
    return Labels(names, by_task)


def _filled(means: FloatArray, valid: IntArray, samples: int, missing: float) -> FloatArray:
    return np.asarray((np.where(valid > 0, means, 0.0) * valid + missing * (samples - valid)) / samples)
