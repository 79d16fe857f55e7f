"""Confidence intervals of a mean over tasks in clusters, by name of the method, and the rule `auto`.

`auto` takes the method that the calibration found best for the number and the balance of the clusters
(scoring/statistics/regimes.py). Every interval carries the name of its method, and a note where the calibration found
that it covers less than it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy.stats import t as student

from scoring.statistics.bootstrap import bca_interval, percentile_interval, resampled_means, yuj_interval
from scoring.statistics.clusters import ClusterSums, cr2
from scoring.statistics.estimate import FloatArray, Interval, NotEstimable
from scoring.statistics.regimes import Regime, calibration, coverage_note, regime_of
from scoring.statistics.sign_flips import WildClusters, sign_flip_interval, sign_patterns


class IntervalMethod(StrEnum):
    """The words of the study file, `[analysis] interval`."""

    AUTO = "auto"
    CR2 = "cr2"
    WILD = "wild"
    SIGNFLIP = "signflip"
    PERCENTILE = "percentile"
    BCA = "bca"
    YUJ = "yuj"


METHOD_NAMES = {
    IntervalMethod.CR2: "cr2-satterthwaite",
    IntervalMethod.WILD: "wild-cluster-bootstrap",
    IntervalMethod.SIGNFLIP: "sign-flip-inversion",
    IntervalMethod.PERCENTILE: "cluster-bootstrap-percentile",
    IntervalMethod.BCA: "cluster-bootstrap-bca",
    IntervalMethod.YUJ: "yuj-percentile-cluster",
}
"""What outputs call the methods (`ci_method`)."""
CALIBRATED_AS = {IntervalMethod.YUJ: IntervalMethod.PERCENTILE}
"""Methods whose coverage was measured under another name."""


@dataclass(frozen=True)
class IntervalSettings:
    """`alpha` is one minus the confidence level; `resamples` the bootstrap draws or sign patterns.

    `limits` what the estimate can reach.
    """

    method: IntervalMethod = IntervalMethod.AUTO
    alpha: float = 0.05
    resamples: int = 9_999
    limits: tuple[float, float] = (-math.inf, math.inf)


Ends = tuple[FloatArray, FloatArray]
_ROUNDING = 1e-9
_FLIPPED = (IntervalMethod.WILD, IntervalMethod.SIGNFLIP)
_MOST_FLIPPED = 10_000
"""Sign patterns of more clusters would fill the memory; so many clusters need no correction for being few."""


def difference_interval(
    clusters: ClusterSums, settings: IntervalSettings, rng: np.random.Generator, level: float | None
) -> Interval | NotEstimable:
    """The interval of a paired difference, with a note where the calibration found that it covers less than it says.

    `level`: the mean outcome of both arms from 0 to 1, None where the outcome has no such scale.
    """
    found = mean_interval(clusters, settings, rng)
    if isinstance(found, NotEstimable):
        return found
    regime = regime_of(clusters.sizes, level)
    method = _method(settings, regime, len(clusters.sizes))
    return replace(found, note=coverage_note(regime, CALIBRATED_AS.get(method, method)))


def mean_interval(
    clusters: ClusterSums, settings: IntervalSettings, rng: np.random.Generator
) -> Interval | NotEstimable:
    """The interval of `clusters.mean`, clipped to the settings' limits (the reproduction method stays as it is)."""
    refusal = _refusal(clusters, settings)
    if refusal is not None:
        return refusal
    method = _method(settings, regime_of(clusters.sizes, None), len(clusters.sizes))
    low, high = (float(end[0]) for end in _METHODS[method](clusters.sums[None, :], clusters.sizes, settings, rng))
    if not (math.isfinite(low) and math.isfinite(high)):
        return NotEstimable(f"{METHOD_NAMES[method]} has no finite interval with {len(clusters.sizes)} clusters")
    if method is not IntervalMethod.YUJ:
        low, high = max(low, settings.limits[0]), min(high, settings.limits[1])
    return Interval(_settled(low), _settled(high), METHOD_NAMES[method])


def _settled(end: float) -> float:
    """An end that differs from 0 by rounding or by the tolerance of a search is 0."""
    return end if abs(end) > _ROUNDING else 0.0


def _method(settings: IntervalSettings, regime: Regime, clusters: int) -> IntervalMethod:
    if settings.method is not IntervalMethod.AUTO:
        return settings.method
    chosen = IntervalMethod(calibration().chosen[(regime.band, regime.balanced)])
    return IntervalMethod.CR2 if chosen in _FLIPPED and clusters > _MOST_FLIPPED else chosen


def _refusal(clusters: ClusterSums, settings: IntervalSettings) -> NotEstimable | None:
    if not len(clusters.sizes):
        return NotEstimable("no values")
    if settings.method is IntervalMethod.YUJ:
        return None if settings.alpha == 0.05 else NotEstimable("the yuj method is defined for alpha = 0.05 only")
    if len(clusters.sizes) == 1:
        return NotEstimable("one cluster: no variation between clusters to estimate from")
    if settings.method in _FLIPPED and len(clusters.sizes) > _MOST_FLIPPED:
        return NotEstimable(f"{METHOD_NAMES[settings.method]} takes up to {_MOST_FLIPPED} clusters; use cr2")
    spread = np.abs(clusters.sums - clusters.mean * clusters.sizes).max()
    if spread <= 1e-12 * max(1.0, float(np.abs(clusters.sums).max())):
        return NotEstimable(f"no variation: all {len(clusters.sizes)} clusters show a mean of {clusters.mean:g}")
    return None


def cr2_ends(sums: FloatArray, sizes: FloatArray, settings: IntervalSettings, _: np.random.Generator) -> Ends:
    """Mean plus and minus Student's t quantile times the CR2 standard error."""
    means, errors, degrees = cr2(sums, sizes)
    reach = student.ppf(1 - settings.alpha / 2, degrees) * errors
    return means - reach, means + reach


def wild_ends(sums: FloatArray, sizes: FloatArray, settings: IntervalSettings, rng: np.random.Generator) -> Ends:
    """Wild cluster bootstrap-t, inverted."""
    return WildClusters(sums, sizes, sign_patterns(len(sizes), rng, settings.resamples)).interval(settings.alpha)


def signflip_ends(sums: FloatArray, sizes: FloatArray, settings: IntervalSettings, rng: np.random.Generator) -> Ends:
    """Sign-flip test of clusters, inverted."""
    return sign_flip_interval(sums, sizes, sign_patterns(len(sizes), rng, settings.resamples), settings.alpha)


def percentile_ends(sums: FloatArray, sizes: FloatArray, settings: IntervalSettings, rng: np.random.Generator) -> Ends:
    """Percentile cluster bootstrap."""
    return percentile_interval(resampled_means(sums, sizes, rng, settings.resamples), settings.alpha)


def bca_ends(sums: FloatArray, sizes: FloatArray, settings: IntervalSettings, rng: np.random.Generator) -> Ends:
    """Bias-corrected and accelerated cluster bootstrap."""
    return bca_interval(resampled_means(sums, sizes, rng, settings.resamples), sums, sizes, settings.alpha)


def _yuj_ends(sums: FloatArray, sizes: FloatArray, _: IntervalSettings, __: np.random.Generator) -> Ends:
    low, high = yuj_interval(sums[0], sizes)
    return np.asarray([low]), np.asarray([high])


_METHODS: dict[IntervalMethod, Callable[[FloatArray, FloatArray, IntervalSettings, np.random.Generator], Ends]] = {
    IntervalMethod.CR2: cr2_ends,
    IntervalMethod.WILD: wild_ends,
    IntervalMethod.SIGNFLIP: signflip_ends,
    IntervalMethod.PERCENTILE: percentile_ends,
    IntervalMethod.BCA: bca_ends,
    IntervalMethod.YUJ: _yuj_ends,
}
