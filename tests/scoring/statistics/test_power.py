"""Power and minimum detectable effect against a direct computation, and the limits of what can be planned."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from scoring.statistics.estimate import Estimate, NotEstimable
from scoring.statistics.power import PlannedStudy, minimum_detectable_effect, power

ALIKE = PlannedStudy((1,) * 60, 1, 0.3, cluster_sd=0.0, task_sd=0.0)


def direct_power(tasks: int, control: float, treatment: float, alpha: float) -> float:
    """Power of McNemar's exact test when all tasks have the same chances: a sum over discordant pairs."""
    worse, better = control * (1 - treatment), treatment * (1 - control)
    total = 0.0
    for discordant in range(tasks + 1):
        chance = binom.pmf(discordant, tasks, worse + better)
        claims = [binomtest(k, discordant, 0.5).pvalue < alpha if discordant else False for k in range(discordant + 1)]
        total += chance * float(
            (binom.pmf(np.arange(discordant + 1), discordant, better / (worse + better)) * claims).sum()
        )
    return float(total)


def test_power_agrees_with_the_direct_computation() -> None:
    found = power(ALIKE, 0.25, 4_000, seed=1)
    assert found.value == pytest.approx(direct_power(60, 0.3, 0.55, 0.05), abs=0.025)


def test_no_effect_is_claimed_in_at_most_alpha_of_the_studies() -> None:
    assert power(PlannedStudy((4,) * 20, 2, 0.4), 0.0, 2_000, seed=1).value <= 0.065


def test_a_family_of_comparisons_has_less_power() -> None:
    several = PlannedStudy((1,) * 60, 1, 0.3, cluster_sd=0.0, task_sd=0.0, family=10)
    assert power(several, 0.25, 1_000, seed=1).value < power(ALIKE, 0.25, 1_000, seed=1).value


def test_more_samples_detect_less() -> None:
    found = [minimum_detectable_effect(PlannedStudy((5,) * 12, samples, 0.4), 0.8, 300, seed=1) for samples in (1, 4)]
    assert isinstance(found[0], Estimate) and isinstance(found[1], Estimate)
    assert found[1].value < found[0].value


def test_the_minimum_detectable_effect_has_the_wanted_power() -> None:
    found = minimum_detectable_effect(ALIKE, 0.8, 1_000, seed=1)
    assert isinstance(found, Estimate)
    assert direct_power(60, 0.3, 0.3 + found.value, 0.05) == pytest.approx(0.8, abs=0.04)


def test_a_study_too_small_for_any_effect_has_none() -> None:
    found = minimum_detectable_effect(PlannedStudy((1,) * 4, 1, 0.5), 0.8, 200, seed=1)
    assert isinstance(found, NotEstimable) and "more tasks or samples" in found.reason


@pytest.mark.parametrize(("control", "difference"), [(0.0, 0.1), (0.5, 0.5), (0.2, -0.3)])
def test_chances_outside_zero_to_one_are_refused(control: float, difference: float) -> None:
    with pytest.raises(ValueError, match="allowed: chances between 0 and 1"):
        power(PlannedStudy((1,) * 9, 1, control), difference, 10, seed=1)


def test_the_same_seed_gives_the_same_power() -> None:
    assert power(ALIKE, 0.2, 200, seed=4) == power(ALIKE, 0.2, 200, seed=4)
