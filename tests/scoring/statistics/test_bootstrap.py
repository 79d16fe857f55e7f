"""The cluster bootstrap against scipy's, and the reproduction method against its description read literally."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from scoring.statistics.bootstrap import bca_interval, percentile_interval, resampled_means, yuj_interval

RNG = np.random.default_rng(4)
SIZES = RNG.integers(1, 12, 25).astype(np.float64)
SUMS = np.asarray(RNG.binomial(SIZES.astype(int), 0.4) - RNG.binomial(SIZES.astype(int), 0.2), dtype=np.float64)


def ratio(sums: np.ndarray, sizes: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.asarray(sums.sum(axis=axis) / sizes.sum(axis=axis))


@pytest.mark.parametrize("method", ["percentile", "BCa"])
def test_intervals_agree_with_scipys(method: str) -> None:
    means = resampled_means(SUMS[None, :], SIZES, np.random.default_rng(1), 60_000)
    found = (
        percentile_interval(means, 0.05) if method == "percentile" else bca_interval(means, SUMS[None, :], SIZES, 0.05)
    )
    expected = bootstrap(
        (SUMS, SIZES), ratio, paired=True, vectorized=True, method=method, n_resamples=60_000, rng=2, batch=10_000
    ).confidence_interval
    assert float(found[0][0]) == pytest.approx(expected.low, abs=0.004)
    assert float(found[1][0]) == pytest.approx(expected.high, abs=0.004)


def test_all_studies_of_a_batch_see_the_same_draws() -> None:
    batch = np.vstack([SUMS, 2 * SUMS])
    means = resampled_means(batch, SIZES, np.random.default_rng(1), 50)
    np.testing.assert_allclose(means[:, 1], 2 * means[:, 0])


def test_the_same_generator_gives_the_same_digits() -> None:
    first, second = (resampled_means(SUMS[None, :], SIZES, np.random.default_rng(7), 20) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_the_reproduction_method_is_its_description() -> None:
    rng = np.random.default_rng(20260101)
    means = []
    for drawn in rng.integers(0, len(SIZES), (10_000, len(SIZES))):
        means.append(sum(SUMS[drawn]) / sum(SIZES[drawn]))
    assert yuj_interval(SUMS, SIZES) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=1e-12)
