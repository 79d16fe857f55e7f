"""Intervals from flipping the signs of whole clusters: inversion of the plain test, and the wild cluster bootstrap-t.

Both put the hypothesis into the residuals u_g = S_g - m n_g and ask how often random signs give a statistic at least as
large. Rule: all 2^(G-1) sign patterns up to 12 clusters, else random ones; the observed pattern always counts, so p is
never 0.
"""

from __future__ import annotations

import numpy as np

from scoring.statistics.clusters import cr2
from scoring.statistics.estimate import FloatArray

_ENUMERATED_CLUSTERS = 12
_FEWEST_DRAWS = 999
_MOST_SIGNS = 20_000_000
_WIDEST = 64.0
_HALVINGS = 40


def sign_patterns(clusters: int, rng: np.random.Generator, draws: int) -> FloatArray:
    """Patterns of +1 and -1, shape (patterns, clusters); the first is the observed one."""
    if clusters <= _ENUMERATED_CLUSTERS:
        numbers = np.arange(2 ** (clusters - 1))[:, None]
        return np.asarray(1 - 2 * ((numbers >> np.arange(clusters)) & 1), dtype=np.float64)
    drawn = min(draws, max(_FEWEST_DRAWS, _MOST_SIGNS // clusters))
    flips = rng.integers(0, 2, (drawn, clusters), dtype=np.int8)
    return np.vstack([np.ones(clusters), 1.0 - 2.0 * flips])


def sign_flip_interval(
    sums: FloatArray, sizes: FloatArray, patterns: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of {m : p(m) > alpha} of the sign-flip test, in closed form; infinite where there are too few clusters.

    For the statistic |sum_g w_g (S_g - m n_g)| a pattern is as extreme as the observed one exactly for m between the
    two subset means that the pattern splits the clusters into (Hartigan 1969, JASA 64, "Using subsample values as
    typical values"), so the ends are order statistics of subset means.
    """
    split = patterns[np.abs(patterns.sum(axis=1)) < patterns.shape[1]] > 0
    needed = int(np.floor(alpha * len(patterns) + 1e-9)) - (len(patterns) - len(split) - 1)
    if needed < 1:
        infinite = np.full(sums.shape[0], np.inf)
        return -infinite, infinite
    inside = split.astype(np.float64) @ sums.T
    inside_sizes = (split @ sizes)[:, None]
    first = inside / inside_sizes
    second = (sums.sum(axis=1) - inside) / (sizes.sum() - inside_sizes)
    low = np.partition(np.minimum(first, second), needed - 1, axis=0)[needed - 1]
    high = -np.partition(-np.maximum(first, second), needed - 1, axis=0)[needed - 1]
    return low, high


class WildClusters:
    """Wild cluster bootstrap-t of a mean, null imposed, Rademacher weights (Cameron, Gelbach and Miller 2008, REStat
    90).

    The products of patterns with sums and sizes are taken once, so that a p value at another mean costs one pass over
    the patterns.
    """

    def __init__(self, sums: FloatArray, sizes: FloatArray, patterns: FloatArray) -> None:
        self._total = float(sizes.sum())
        self._sums, self._sizes = sums, sizes
        self._flipped_sums, self._flipped_sizes = patterns @ sums.T, (patterns @ sizes)[:, None]
        self._flipped_cross, self._flipped_squares = patterns @ (sums * sizes).T, (patterns @ sizes**2)[:, None]

    def p(self, means: FloatArray) -> FloatArray:
        """Two-sided p value of the hypothesis that the mean is `means[k]` in study k."""
        deviation = (self._flipped_sums - means * self._flipped_sizes) / self._total
        cross = self._flipped_cross - means * self._flipped_squares
        squares = ((self._sums - means[:, None] * self._sizes) ** 2).sum(axis=1)
        variance = squares - 2 * deviation * cross + deviation**2 * float((self._sizes**2).sum())
        statistic = deviation**2 / np.maximum(variance, 1e-300)
        return np.asarray((statistic >= statistic[0] * (1 - 1e-10)).mean(axis=0))

    def interval(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """The ends of {m : p(m) > alpha} around the estimate, by bisection in units of the CR2 standard error."""
        means, errors, _ = cr2(self._sums, self._sizes)
        return self._end(means, -errors, alpha), self._end(means, errors, alpha)

    def _end(self, means: FloatArray, step: FloatArray, alpha: float) -> FloatArray:
        inside, outside = np.zeros(len(means)), np.full(len(means), _WIDEST)
        endless = self.p(means + _WIDEST * step) > alpha
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            accepted = self.p(means + middle * step) > alpha
            inside, outside = np.where(accepted, middle, inside), np.where(accepted, outside, middle)
        return np.where(endless, np.copysign(np.inf, step), means + inside * step)
