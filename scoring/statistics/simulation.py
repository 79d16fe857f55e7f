"""Simulated paired studies: tasks in clusters, two arms, several samples, with a true difference that is known.

The model: on the logit scale a task's chance under the control is level + cluster effect + task effect; the treatment
adds an effect of its own that may vary by cluster and by task; all effects are normal. Clusters stand next to each
other in the order of `sizes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit

from scoring.statistics.estimate import FloatArray

_BATCH = 500_000
_NODES = 80


@dataclass(frozen=True)
class OutcomeModel:
    """Logit-scale parameters: mean level and effect, and standard deviations between clusters and between tasks."""

    level: float
    effect: float
    cluster_sd: float
    task_sd: float
    effect_cluster_sd: float = 0.0
    effect_task_sd: float = 0.0

    @property
    def true_difference(self) -> float:
        """The mean difference over all clusters and tasks that could be drawn."""
        control = np.hypot(self.cluster_sd, self.task_sd)
        treatment = np.hypot(control, np.hypot(self.effect_cluster_sd, self.effect_task_sd))
        return mean_chance(self.level + self.effect, float(treatment)) - mean_chance(self.level, float(control))


def mean_chance(level: float, sd: float) -> float:
    """The mean of a logit-normal chance, by Gauss-Hermite quadrature."""
    nodes, weights = hermegauss(_NODES)
    return float((expit(level + sd * nodes) * weights).sum() / weights.sum())


def simulate_differences(
    sizes: FloatArray, samples: int, model: OutcomeModel, studies: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Differences of task means, treatment minus control, in batches of shape (studies of the batch, tasks)."""
    tasks = int(sizes.sum())
    batch = max(1, _BATCH // tasks)
    for start in range(0, studies, batch):
        yield _differences(sizes.astype(np.intp), samples, model, min(batch, studies - start), rng)


def sums_by_cluster(differences: FloatArray, sizes: FloatArray) -> FloatArray:
    """Sums of neighbouring tasks, shape (studies, clusters)."""
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
    return np.asarray(np.add.reduceat(differences, starts, axis=1))


def _differences(
    sizes: np.ndarray[tuple[int], np.dtype[np.intp]],
    samples: int,
    model: OutcomeModel,
    studies: int,
    rng: np.random.Generator,
) -> FloatArray:
    def spread(cluster_sd: float, task_sd: float) -> FloatArray:
        by_cluster = cluster_sd * rng.standard_normal((studies, len(sizes)))
        return np.repeat(by_cluster, sizes, axis=1) + task_sd * rng.standard_normal((studies, int(sizes.sum())))

    control = model.level + spread(model.cluster_sd, model.task_sd)
    treatment = control + model.effect
    if model.effect_cluster_sd or model.effect_task_sd:
        treatment += spread(model.effect_cluster_sd, model.effect_task_sd)
    solved = [rng.binomial(samples, expit(chance)) for chance in (treatment, control)]
    return np.asarray((solved[0] - solved[1]) / samples, dtype=np.float64)
