"""Intervals by name, the rule `auto`, and what an interval says of itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.statistics.clusters import ClusterSums
from scoring.statistics.estimate import Interval, NotEstimable, generator_for
from scoring.statistics.interval import (
    METHOD_NAMES,
    IntervalMethod,
    IntervalSettings,
    difference_interval,
    mean_interval,
)
from scoring.statistics.regimes import BANDS, LEVELS, Regime, calibration, coverage_note, level_of, regime_of


def clusters(sums: list[float], sizes: list[int]) -> ClusterSums:
    names = tuple(f"c{index}" for index in range(len(sums)))
    return ClusterSums(names, np.asarray(sums, dtype=np.float64), np.asarray(sizes, dtype=np.float64))


UNEQUAL = clusters([5, 3, 2, 0, 1, -1, 1, 0, 1, 0, 0], [69, 24, 23, 13, 12, 7, 6, 6, 6, 2, 1])
EQUAL = clusters([2, 1, 0, 1, 3, -1, 1, 0, 2, 1, 1], [10] * 11)


def interval(data: ClusterSums, method: str = "auto", alpha: float = 0.05) -> Interval:
    settings = IntervalSettings(IntervalMethod(method), alpha, resamples=999)
    found = difference_interval(data, settings, np.random.default_rng(1), 0.5)
    assert isinstance(found, Interval)
    return found


@pytest.mark.parametrize("method", [method for method in IntervalMethod if method is not IntervalMethod.AUTO])
def test_every_method_names_itself_and_holds_the_estimate(method: IntervalMethod) -> None:
    found = interval(UNEQUAL, method)
    assert found.method == METHOD_NAMES[method]
    assert found.low < UNEQUAL.mean < found.high


def test_auto_is_the_method_that_the_calibration_chose() -> None:
    for data in (UNEQUAL, EQUAL):
        regime = regime_of(data.sizes, 0.5)
        chosen = calibration().chosen[(regime.band, regime.balanced)]
        assert interval(data) == interval(data, chosen)


def test_the_plain_bootstrap_says_that_it_under_covers_with_few_clusters_and_auto_does_not() -> None:
    assert interval(UNEQUAL, "percentile").note.startswith("under-covers here: ")
    assert interval(UNEQUAL, "yuj").note == interval(UNEQUAL, "percentile").note
    assert interval(UNEQUAL).note == ""


def test_a_wider_level_contains_a_narrower_one() -> None:
    for method in ("cr2", "wild", "signflip", "percentile", "bca"):
        wide, narrow = interval(UNEQUAL, method, 0.05), interval(UNEQUAL, method, 0.2)
        assert wide.low <= narrow.low and narrow.high <= wide.high


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (clusters([], []), "no values"),
        (clusters([1], [3]), "one cluster"),
        (clusters([0, 0, 0], [1, 2, 3]), "no variation: all 3 clusters show a mean of 0"),
        (clusters([1, 2, 3], [1, 2, 3]), "no variation"),
    ],
)
def test_nothing_to_estimate_from_is_said(data: ClusterSums, reason: str) -> None:
    found = mean_interval(data, IntervalSettings(), np.random.default_rng(1))
    assert isinstance(found, NotEstimable) and reason in found.reason


def test_too_few_clusters_for_a_method_are_said() -> None:
    settings = IntervalSettings(IntervalMethod.SIGNFLIP)
    found = mean_interval(clusters([1, 0, 2, 1], [3, 3, 4, 3]), settings, np.random.default_rng(1))
    assert isinstance(found, NotEstimable) and "4 clusters" in found.reason


def test_more_clusters_than_sign_patterns_fit_for_have_the_cr2_interval() -> None:
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 30, 10_001)
    many = clusters(rng.binomial(sizes, 0.1).tolist(), sizes.tolist())
    assert interval(many).method == METHOD_NAMES[IntervalMethod.CR2]
    asked = mean_interval(many, IntervalSettings(IntervalMethod.WILD), rng)
    assert isinstance(asked, NotEstimable) and "use cr2" in asked.reason


def test_the_reproduction_method_has_one_level_only() -> None:
    found = mean_interval(EQUAL, IntervalSettings(IntervalMethod.YUJ, alpha=0.1), np.random.default_rng(1))
    assert isinstance(found, NotEstimable)


def test_an_interval_does_not_leave_what_the_difference_can_reach() -> None:
    settings = IntervalSettings(IntervalMethod.CR2, limits=(-1.0, 1.0))
    found = mean_interval(clusters([3, 0, 2], [3, 3, 3]), settings, np.random.default_rng(1))
    assert isinstance(found, Interval) and found.high == 1.0


def test_the_same_seed_gives_the_same_digits_and_another_question_gives_others() -> None:
    settings = IntervalSettings(IntervalMethod.PERCENTILE, resamples=200)
    same = [mean_interval(UNEQUAL, settings, generator_for(5, "a", "b")) for _ in range(2)]
    other = mean_interval(UNEQUAL, settings, generator_for(5, "ab"))
    assert same[0] == same[1] != other


def test_every_regime_has_a_choice_and_a_measured_coverage_of_it() -> None:
    carried = calibration()
    for band in range(len(BANDS)):
        for balanced in (True, False):
            chosen = carried.chosen[(band, balanced)]
            for level in ("common", *LEVELS):
                assert (Regime(band, balanced, level), chosen) in carried.coverage


def test_from_forty_clusters_the_chosen_interval_covers_common_outcomes_as_it_says() -> None:
    carried = calibration()
    for band, (first, _) in enumerate(BANDS):
        if first >= 40:
            for balanced in (True, False):
                percent = carried.coverage[(Regime(band, balanced, "common"), carried.chosen[(band, balanced)])]
                assert 94 <= percent <= 96


def test_a_method_that_was_not_calibrated_says_so() -> None:
    assert coverage_note(Regime(0, True, "common"), "wild") == (
        "not calibrated here (2 to 5 clusters of similar sizes, common outcome)"
    )


@given(st.floats(0, 1))
def test_an_outcome_and_its_opposite_are_equally_common(mean: float) -> None:
    assert level_of(mean) == level_of(1 - mean)
