"""Pairs by task: what two arms measured on the same tasks, and every task that has no partner, by name.

Rules:
1. A pair needs at least one value in both arms; samples are averaged before and are never pairs of their own.
2. A task with a value in one arm only is unpaired, and named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoring.statistics.arm_tasks import ArmTasks, GroupRows, arm_tasks
from scoring.statistics.clusters import ClusterSums, cluster_sums
from scoring.statistics.estimate import BoolArray, FloatArray


@dataclass(frozen=True)
class TaskPairs:
    """Two arms over the same tasks (sorted by name), on one outcome."""

    control: ArmTasks
    treatment: ArmTasks

    @property
    def tasks(self) -> tuple[str, ...]:
        """All tasks of the group."""
        return self.control.tasks

    @property
    def samples(self) -> int:
        """Samples of the design."""
        return self.control.samples

    @property
    def paired(self) -> BoolArray:
        """Which tasks have a value in both arms."""
        return np.asarray((self.control.valid > 0) & (self.treatment.valid > 0))

    @property
    def unpaired(self) -> tuple[str, ...]:
        """Tasks with a value in exactly one arm."""
        return self.named((self.control.valid > 0) != (self.treatment.valid > 0))

    @property
    def missing(self) -> int:
        """Cells of the design without a value, in both arms together."""
        return self.control.denominators.missing + self.treatment.denominators.missing

    @property
    def contaminated(self) -> int:
        """Contaminated cells in both arms together."""
        return self.control.denominators.contaminated + self.treatment.denominators.contaminated

    @property
    def totals_differ(self) -> int | None:
        """Pairs whose denominators are known and not the same.

        None with several samples a task, or without denominators.
        """
        if self.control.totals is None or self.treatment.totals is None:
            return None
        return int(np.count_nonzero(np.abs(self.control.totals - self.treatment.totals) > 0))

    @property
    def differences(self) -> FloatArray:
        """Treatment minus control, of the paired tasks."""
        return np.asarray((self.treatment.means - self.control.means)[self.paired])

    def named(self, chosen: BoolArray) -> tuple[str, ...]:
        """The names of the chosen tasks."""
        return tuple(self.tasks[index] for index in np.flatnonzero(chosen))

    def by_cluster(self) -> ClusterSums:
        """The differences of the pairs, summed by cluster."""
        cluster = self.control.cluster
        return cluster_sums(cluster.names, cluster.codes[self.paired], self.differences)

    def bounds(self) -> tuple[float, float]:
        """The mean difference over all tasks with every missing cell counted against, and for, the treatment.

        For outcomes from 0 to 1.
        """
        low = self.treatment.filled(0.0) - self.control.filled(1.0)
        high = self.treatment.filled(1.0) - self.control.filled(0.0)
        return float(low.mean()), float(high.mean())


def pair_tasks(
    rows: GroupRows, control: str, treatment: str, outcome: str, *, without_contaminated: bool = False
) -> TaskPairs:
    """Pair two arms of a group. An arm without a row is a side without values."""
    return TaskPairs(
        arm_tasks(rows, control, outcome, without_contaminated=without_contaminated),
        arm_tasks(rows, treatment, outcome, without_contaminated=without_contaminated),
    )
