"""The table of arms: for each arm of a group its denominators, means, pass@k and pass^k, and quantiles of amounts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoring.statistics.arm_tasks import ArmDenominators, ArmTasks, arm_tasks, group_rows
from scoring.statistics.arms import ArmMeans, PassAtK, arm_means, pass_estimates, quantile
from scoring.statistics.estimate import Estimate, NotEstimable
from scoring.statistics.outcomes import Labels, OutcomeKind, OutcomeTable, kind_of

QUANTILES = (0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class ArmSummary:
    """One arm and one outcome. `passes` is for yes-or-no outcomes, k from 1 to the samples.

    `quantiles` for amounts, by cell.
    """

    arm: str
    outcome: str
    tasks: int
    denominators: ArmDenominators
    means: ArmMeans
    passes: tuple[PassAtK, ...]
    quantiles: dict[float, Estimate | NotEstimable]


def arm_table(
    table: OutcomeTable, group: int, outcome: str, alpha: float, kind: OutcomeKind | None = None
) -> tuple[ArmSummary, ...]:
    """All arms of the group, sorted by name."""
    rows = group_rows(table, group)
    return tuple(
        _summary(arm_tasks(rows, arm, outcome), outcome, kind or kind_of(outcome), alpha)
        for arm in sorted(table.arm.names)
    )


def _summary(side: ArmTasks, outcome: str, kind: OutcomeKind, alpha: float) -> ArmSummary:
    valued = side.valid > 0
    clusters = Labels(side.cluster.names, side.cluster.codes[valued])
    means = side.means[valued]
    passes: tuple[PassAtK, ...] = ()
    if kind is OutcomeKind.BINARY:
        solved = np.rint(means * side.valid[valued]).astype(np.intp)
        passes = tuple(
            pass_estimates(solved, side.valid[valued], clusters, k, alpha) for k in range(1, side.samples + 1)
        )
    return ArmSummary(
        arm=side.arm,
        outcome=outcome,
        tasks=int(valued.sum()),
        denominators=side.denominators,
        means=arm_means(means, clusters, side.samples, kind, alpha),
        passes=passes,
        quantiles={q: quantile(side.cells, q, alpha) for q in QUANTILES} if kind is OutcomeKind.AMOUNT else {},
    )
