"""Cluster bootstrap of a ratio of sums: percentile, BCa, and the labelled method that reproduces the Yuj data.

Clusters are drawn with replacement; each draw's estimate is the sum of the drawn differences over the number of drawn
tasks. With few clusters these intervals are too short (docs/statistics.md shows by how much); `auto` never picks them.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from scoring.statistics.estimate import FloatArray

YUJ_SEED = 20260101
YUJ_RESAMPLES = 10_000
_BATCH = 4_000_000


def resampled_means(sums: FloatArray, sizes: FloatArray, rng: np.random.Generator, resamples: int) -> FloatArray:
    """Bootstrap means, shape (resamples, studies), all studies under the same draws of clusters."""
    clusters = len(sizes)
    means, left = [], resamples
    while left:
        batch = min(left, max(1, _BATCH // clusters))
        counts = rng.multinomial(clusters, np.full(clusters, 1 / clusters), batch).astype(np.float64)
        means.append((counts @ sums.T) / (counts @ sizes)[:, None])
        left -= batch
    return np.concatenate(means)


def percentile_interval(means: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Percentile interval (Efron and Tibshirani 1993, chapter 13) of bootstrap means of shape (resamples, studies)."""
    low, high = np.quantile(means, [alpha / 2, 1 - alpha / 2], axis=0)
    return low, high


def bca_interval(means: FloatArray, sums: FloatArray, sizes: FloatArray, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Bias-corrected and accelerated interval (Efron 1987, JASA 82), its acceleration from leaving out each cluster."""
    estimate = sums.sum(axis=1) / sizes.sum()
    below = (np.count_nonzero(means < estimate, axis=0) + np.count_nonzero(means <= estimate, axis=0)) / (
        2 * len(means)
    )
    bias = norm.ppf(below)
    left_out = (sums.sum(axis=1)[:, None] - sums) / (sizes.sum() - sizes)
    influence = left_out.mean(axis=1)[:, None] - left_out
    spread = (influence**2).sum(axis=1)
    acceleration = (influence**3).sum(axis=1) / (6 * np.maximum(spread, 1e-300) ** 1.5)
    ends = []
    for quantile in (alpha / 2, 1 - alpha / 2):
        shifted = bias + norm.ppf(quantile)
        level = norm.cdf(bias + shifted / (1 - acceleration * shifted))
        ends.append(_quantile_by_study(means, level))
    return ends[0], ends[1]


def yuj_interval(sums: FloatArray, sizes: FloatArray) -> tuple[float, float]:
    """95 % interval exactly as the Yuj comparison computes it; `sums` and `sizes` of shape (clusters) in the order of
    cluster names.

    B = 10,000 draws by `default_rng(20260101).integers(0, R, (B, R))`, the generator made anew for each comparison;
    `np.percentile`.
    """
    clusters = len(sizes)
    drawn = np.random.default_rng(YUJ_SEED).integers(0, clusters, (YUJ_RESAMPLES, clusters))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _quantile_by_study(means: FloatArray, levels: FloatArray) -> FloatArray:
    ordered = np.sort(means, axis=0)
    place = np.clip(np.nan_to_num(levels, nan=0.5), 0, 1) * (len(means) - 1)
    lower = np.floor(place).astype(np.intp)
    upper = np.minimum(lower + 1, len(means) - 1)
    columns = np.arange(means.shape[1])
    return ordered[lower, columns] + (place - lower) * (ordered[upper, columns] - ordered[lower, columns])
