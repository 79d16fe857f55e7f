"""Intervals by flipping signs against the test they invert, and the wild bootstrap against refitting each draw."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from scoring.statistics.sign_flips import WildClusters, sign_flip_interval, sign_patterns

SIZES = np.asarray([9.0, 6, 4, 4, 3, 2, 1, 1])
SUMS = np.asarray([2.0, 3, 1, 0, 2, -1, 1, 0])
PATTERNS = sign_patterns(len(SIZES), np.random.default_rng(0), 0)


def flip_p(mean: float) -> float:
    residuals = SUMS - mean * SIZES
    statistics = [abs(np.dot(signs, residuals)) for signs in itertools.product([1, -1], repeat=len(SIZES))]
    return float(np.mean(np.asarray(statistics) >= abs(residuals.sum()) - 1e-9))


def refitted_p(mean: float) -> float:
    """Wild cluster bootstrap-t by the book: restricted residuals, flipped by cluster, refitted, one draw at a time."""
    codes = np.repeat(np.arange(len(SIZES)), SIZES.astype(int))
    values = (SUMS / SIZES)[codes]

    def statistic(sample: np.ndarray) -> float:
        estimate = sample.mean()
        scores = np.bincount(codes, weights=sample - estimate)
        return float(abs(estimate - mean)) / float(np.sqrt((scores**2).sum()) / len(sample))

    observed = statistic(values)
    drawn = [
        statistic(mean + (values - mean) * np.asarray(signs)[codes])
        for signs in itertools.product([1, -1], repeat=len(SIZES))
    ]
    return float(np.mean(np.asarray(drawn) >= observed * (1 - 1e-9)))


def test_all_patterns_are_listed_for_few_clusters_and_the_observed_one_is_first() -> None:
    assert PATTERNS.shape == (128, 8) and len({tuple(row) for row in PATTERNS}) == 128
    assert PATTERNS[0].tolist() == [1.0] * 8
    drawn = sign_patterns(40, np.random.default_rng(0), 99)
    assert drawn.shape == (100, 40) and drawn[0].tolist() == [1.0] * 40


def test_the_closed_form_ends_where_the_test_begins_to_reject() -> None:
    low, high = (float(end[0]) for end in sign_flip_interval(SUMS[None, :], SIZES, PATTERNS, 0.05))
    for inside, outside in ((low + 1e-6, low - 1e-6), (high - 1e-6, high + 1e-6)):
        assert flip_p(inside) > 0.05 >= flip_p(outside)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.25])
def test_any_level_is_inverted(alpha: float) -> None:
    low, high = (float(end[0]) for end in sign_flip_interval(SUMS[None, :], SIZES, PATTERNS, alpha))
    assert flip_p(low + 1e-6) > alpha >= flip_p(low - 1e-6)
    assert flip_p(high - 1e-6) > alpha >= flip_p(high + 1e-6)


@pytest.mark.parametrize("mean", [-0.3, 0.0, 0.1, 0.25, 0.6])
def test_the_wild_bootstrap_agrees_with_refitting_every_draw(mean: float) -> None:
    found = WildClusters(SUMS[None, :], SIZES, PATTERNS).p(np.asarray([mean]))
    assert float(found[0]) == pytest.approx(refitted_p(mean), abs=1e-12)


def test_the_wild_interval_ends_where_its_test_begins_to_reject() -> None:
    clusters = WildClusters(SUMS[None, :], SIZES, PATTERNS)
    low, high = (float(end[0]) for end in clusters.interval(0.05))
    for inside, outside in ((low + 1e-6, low - 1e-6), (high - 1e-6, high + 1e-6)):
        assert refitted_p(inside) > 0.05 >= refitted_p(outside)


def test_too_few_clusters_have_an_endless_interval() -> None:
    sums, sizes = np.asarray([[1.0, 2, 0, 1]]), np.asarray([2.0, 3, 2, 2])
    patterns = sign_patterns(4, np.random.default_rng(0), 0)
    for low, high in (
        sign_flip_interval(sums, sizes, patterns, 0.05),
        WildClusters(sums, sizes, patterns).interval(0.05),
    ):
        assert np.isinf(low[0]) and np.isinf(high[0])


def test_studies_of_a_batch_do_not_touch_each_other() -> None:
    batch = np.vstack([SUMS, SUMS[::-1], SUMS * 0.5])
    together = sign_flip_interval(batch, SIZES, PATTERNS, 0.05)
    wild = WildClusters(batch, SIZES, PATTERNS).interval(0.05)
    for index in range(3):
        alone = sign_flip_interval(batch[index : index + 1], SIZES, PATTERNS, 0.05)
        assert (together[0][index], together[1][index]) == (alone[0][0], alone[1][0])
        alone = WildClusters(batch[index : index + 1], SIZES, PATTERNS).interval(0.05)
        assert (wild[0][index], wild[1][index]) == pytest.approx((alone[0][0], alone[1][0]))
