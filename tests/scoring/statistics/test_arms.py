"""Per-arm figures against independent implementations and plain enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from statsmodels.stats.proportion import proportion_confint

from scoring.statistics.arms import (
    arm_means,
    pass_at_k,
    pass_estimates,
    pass_hat_k,
    quantile,
    student_interval,
    wilson_interval,
)
from scoring.statistics.estimate import Estimate, Interval, NotEstimable
from scoring.statistics.outcomes import Labels, OutcomeKind

VERDICTS = np.asarray([1.0, 0, 0, 1, 1, 0, 0, 0, 1, 0])
CLUSTERS = Labels(("a", "b", "c"), np.asarray([0, 0, 0, 0, 1, 1, 1, 2, 2, 2]))


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (4, 10), (10, 10), (72, 169)])
def test_wilson_agrees_with_statsmodels(successes: int, trials: int) -> None:
    found = wilson_interval(successes, trials, 0.05)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == pytest.approx(proportion_confint(successes, trials, 0.05, method="wilson"))


def test_students_interval_agrees_with_scipy() -> None:
    found = student_interval(VERDICTS, 0.05)
    expected = ttest_1samp(VERDICTS, 0).confidence_interval(0.95)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_an_arm_has_the_intervals_that_apply_and_the_reasons_of_the_others() -> None:
    one_sample = arm_means(VERDICTS, CLUSTERS, 1, OutcomeKind.BINARY, 0.05)
    assert isinstance(one_sample.wilson, Interval) and isinstance(one_sample.student, Interval)
    assert isinstance(one_sample.clustered, Estimate) and one_sample.clustered.se is not None
    several = arm_means(VERDICTS, CLUSTERS, 4, OutcomeKind.BINARY, 0.05)
    assert isinstance(several.wilson, NotEstimable) and "one sample a task" in several.wilson.reason
    fraction = arm_means(VERDICTS, CLUSTERS, 1, OutcomeKind.FRACTION, 0.05)
    assert isinstance(fraction.wilson, NotEstimable)


def test_an_arm_without_values_has_no_mean() -> None:
    empty = arm_means(np.zeros(0), Labels((), np.zeros(0, dtype=np.intp)), 1, OutcomeKind.BINARY, 0.05)
    assert all(isinstance(found, NotEstimable) for found in (empty.clustered, empty.student, empty.wilson))


@pytest.mark.parametrize("samples", [1, 2, 5])
def test_pass_at_k_and_pass_hat_k_are_shares_of_all_subsets(samples: int) -> None:
    for successes, k in itertools.product(range(samples + 1), range(1, samples + 1)):
        solved = [1] * successes + [0] * (samples - successes)
        subsets = list(itertools.combinations(solved, k))
        counts = np.asarray([successes]), np.asarray([samples])
        assert float(pass_at_k(*counts, k)[0]) == pytest.approx(np.mean([max(subset) for subset in subsets]))
        assert float(pass_hat_k(*counts, k)[0]) == pytest.approx(np.mean([min(subset) for subset in subsets]))


def test_tasks_with_fewer_than_k_samples_are_left_out_and_counted() -> None:
    found = pass_estimates(
        np.asarray([2, 1, 0, 2]), np.asarray([3, 3, 1, 3]), Labels(("a", "b"), np.asarray([0, 1, 0, 1])), 2, 0.05
    )
    assert found.tasks_left_out == 1
    assert isinstance(found.at_least_one, Estimate) and isinstance(found.all_of_k, Estimate)
    assert found.at_least_one.value == pytest.approx((1 + 2 / 3 + 1) / 3)
    assert found.all_of_k.value == pytest.approx((1 / 3 + 0 + 1 / 3) / 3)


def test_pass_at_more_than_the_samples_is_not_estimable() -> None:
    found = pass_estimates(np.asarray([1]), np.asarray([2]), Labels(("a",), np.asarray([0])), 3, 0.05)
    assert isinstance(found.at_least_one, NotEstimable)


def test_k_below_one_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="allowed: 1 or more"):
        pass_estimates(np.asarray([1]), np.asarray([2]), Labels(("a",), np.asarray([0])), 0, 0.05)


def test_a_quantile_has_its_order_statistics_interval() -> None:
    values = np.arange(1.0, 101)
    found = quantile(values, 0.5, 0.05)
    assert isinstance(found, Estimate) and isinstance(found.interval, Interval)
    # Conover 1999, table A3 for n = 100, p = 0.5: order statistics 40 and 61 hold the median with at least 95 %.
    assert (found.interval.low, found.interval.high) == (40.0, 61.0)


def test_few_values_have_a_median_without_an_interval_and_no_values_have_none() -> None:
    found = quantile(np.asarray([1.0, 2.0, 3.0]), 0.5, 0.05)
    assert isinstance(found, Estimate) and isinstance(found.interval, NotEstimable)
    assert isinstance(quantile(np.zeros(0), 0.5, 0.05), NotEstimable)
