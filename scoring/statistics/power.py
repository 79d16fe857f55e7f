"""Before a run: the power of a planned comparison and its minimum detectable effect, by simulation of the test that
will be used.

The simulated studies follow `scoring.statistics.simulation`; a false claim at level alpha / family is Holm's first
step, the strictest. How much tasks and clusters differ is an assumption until a pilot tells; the result names it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.optimize import brentq

from scoring.statistics.arms import wilson_interval
from scoring.statistics.estimate import Estimate, FloatArray, NotEstimable, generator_for
from scoring.statistics.exact_tests import mcnemar_exact, signs
from scoring.statistics.simulation import OutcomeModel, mean_chance, simulate_differences

_FARTHEST = 30.0
_HALVINGS = 12
_DRAWS = 999


@dataclass(frozen=True)
class PlannedStudy:
    """The comparison as planned. `sizes`: tasks in each cluster; `control_rate`: the mean outcome expected of the
    control.

    The standard deviations are of the logit model: between clusters, between tasks, and of the effect between clusters.
    `family` is the number of planned comparisons.
    """

    sizes: tuple[int, ...]
    samples: int
    control_rate: float
    cluster_sd: float = 1.0
    task_sd: float = 1.5
    effect_cluster_sd: float = 0.0
    alpha: float = 0.05
    family: int = 1

    def model(self, difference: float) -> OutcomeModel:
        """The outcome model whose true difference is `difference`.

        ValueError where no chance could be that high or low.
        """
        if not 0 < self.control_rate < 1 or not 0 < self.control_rate + difference < 1:
            raise ValueError(
                f"control {self.control_rate:g} and difference {difference:g}; allowed: chances between 0 and 1"
            )
        spread = float(np.hypot(self.cluster_sd, self.task_sd))
        level = _root(lambda at: mean_chance(at, spread) - self.control_rate)
        model = OutcomeModel(level, 0.0, self.cluster_sd, self.task_sd, self.effect_cluster_sd)
        return replace(model, effect=_root(lambda at: replace(model, effect=at).true_difference - difference))


def power(planned: PlannedStudy, difference: float, studies: int, seed: int) -> Estimate:
    """The share of simulated studies that would claim a difference, with Wilson's interval (Monte-Carlo error)."""
    rng = generator_for(seed, "power")
    sizes = np.asarray(planned.sizes, dtype=np.float64)
    batches = simulate_differences(sizes, planned.samples, planned.model(difference), studies, rng)
    level = planned.alpha / planned.family
    flips = generator_for(seed, "power", "flips")
    claims = sum(_claims(batch, planned.samples, level, flips) for batch in batches)
    return Estimate(claims / studies, studies, None, wilson_interval(claims, studies, 0.05))


def minimum_detectable_effect(
    planned: PlannedStudy, wanted_power: float, studies: int, seed: int
) -> Estimate | NotEstimable:
    """The smallest gain over the control that is found with the wanted power; `interval` is the power measured there.

    Bisection with the same random numbers at each step; not estimable where even the largest possible gain has less
    power.
    """
    low, high = 0.0, (1 - planned.control_rate) * 0.99
    if power(planned, high, studies, seed).value < wanted_power:
        return NotEstimable(
            f"even a gain of {high:.2f} is found with a power below {wanted_power:g}: more tasks or samples"
        )
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = power(planned, middle, studies, seed).value >= wanted_power
        low, high = (low, middle) if enough else (middle, high)
    return Estimate(high, studies, None, power(planned, high, studies, seed).interval)


def _claims(differences: FloatArray, samples: int, level: float, rng: np.random.Generator) -> int:
    """How many studies (rows) claim a difference: by McNemar's exact test, or by random signs shared by all."""
    if samples == 1:
        return sum(_mcnemar_p(down, up) < level for up, down, _ in map(signs, differences))
    flips = 1.0 - 2.0 * rng.integers(0, 2, (differences.shape[1], _draws(level)), dtype=np.int8)
    observed = np.abs(differences.sum(axis=1))[:, None]
    extreme = np.count_nonzero(np.abs(differences @ flips) >= observed - 1e-9, axis=1)
    return int(np.count_nonzero((1 + extreme) / (1 + flips.shape[1]) < level))


def _draws(level: float) -> int:
    return max(_DRAWS, int(20 / level) - 1)


@cache
def _mcnemar_p(control_only: int, treatment_only: int) -> float:
    return mcnemar_exact(control_only, treatment_only).p


def _root(gap: Callable[[float], float]) -> float:
    return float(brentq(gap, -_FARTHEST, _FARTHEST))
