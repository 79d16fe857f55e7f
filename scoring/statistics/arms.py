"""What one arm did, by itself: means with their intervals, pass@k and pass^k, quantiles of amounts.

Rules:
1. Every task weighs alike; samples of a task are averaged first.
2. Student's interval takes tasks as independent, Wilson's also needs yes-or-no values with one sample a task; the CR2
   interval allows for clusters and is the one to quote.
3. pass@k and pass^k need k valid samples of a task; tasks with fewer are left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import comb
from scipy.stats import binomtest, quantile_test
from scipy.stats import t as student

from scoring.statistics.clusters import ClusterSums, cluster_sums, cr2
from scoring.statistics.estimate import Estimate, FloatArray, IntArray, Interval, NotEstimable
from scoring.statistics.interval import IntervalMethod, IntervalSettings, mean_interval
from scoring.statistics.outcomes import Labels, OutcomeKind


@dataclass(frozen=True)
class ArmMeans:
    """The mean of an outcome with three intervals; which of them apply is said by the reasons of the others."""

    clustered: Estimate | NotEstimable
    student: Interval | NotEstimable
    wilson: Interval | NotEstimable


@dataclass(frozen=True)
class PassAtK:
    """pass@k (at least one of k samples resolves) and pass^k (all k do), over the tasks with k valid samples."""

    k: int
    at_least_one: Estimate | NotEstimable
    all_of_k: Estimate | NotEstimable
    tasks_left_out: int


def arm_means(task_means: FloatArray, clusters: Labels, samples: int, kind: OutcomeKind, alpha: float) -> ArmMeans:
    """Means of one arm. `task_means` has one finite value a task; `clusters` has the cluster of each task."""
    sums = cluster_sums(clusters.names, clusters.codes, task_means)
    return ArmMeans(
        clustered=clustered_mean(sums, len(task_means), alpha),
        student=student_interval(task_means, alpha),
        wilson=_wilson_where_it_applies(task_means, samples, kind, alpha),
    )


def clustered_mean(sums: ClusterSums, tasks: int, alpha: float) -> Estimate | NotEstimable:
    """The mean over tasks with its CR2 standard error and interval."""
    if not tasks:
        return NotEstimable("no task has a value")
    interval = mean_interval(sums, IntervalSettings(IntervalMethod.CR2, alpha), np.random.default_rng(0))
    if len(sums.sizes) == 1:
        return Estimate(sums.mean, tasks, None, interval)
    _, errors, _ = cr2(sums.sums[None, :], sums.sizes)
    return Estimate(sums.mean, tasks, float(errors[0]), interval)


def student_interval(values: FloatArray, alpha: float) -> Interval | NotEstimable:
    """Student's t interval of the mean of independent values."""
    if len(values) < 2:
        return NotEstimable(f"{len(values)} value(s); Student's interval needs two")
    error = values.std(ddof=1) / np.sqrt(len(values))
    if error == 0:
        return NotEstimable("no variation: all values are equal")
    reach = float(student.ppf(1 - alpha / 2, len(values) - 1) * error)
    return Interval(float(values.mean()) - reach, float(values.mean()) + reach, "student-t")


def wilson_interval(successes: int, trials: int, alpha: float) -> Interval | NotEstimable:
    """Wilson's score interval of a share (Wilson 1927, JASA 22), for independent trials."""
    if not trials:
        return NotEstimable("no trial")
    found = binomtest(successes, trials).proportion_ci(1 - alpha, method="wilson")
    return Interval(float(found.low), float(found.high), "wilson")


def pass_at_k(successes: IntArray, samples: IntArray, k: int) -> FloatArray:
    """Unbiased chance, by task, that at least one of k samples resolves: 1 - C(n-c, k) / C(n, k).

    Chen et al. 2021 (arXiv 2107.03374), equation 1. NaN where a task has fewer than k samples.
    """
    return np.where(samples >= k, 1 - comb(samples - successes, k) / np.maximum(comb(samples, k), 1), np.nan)


def pass_hat_k(successes: IntArray, samples: IntArray, k: int) -> FloatArray:
    """Unbiased chance, by task, that all of k samples resolve: C(c, k) / C(n, k).

    Yao et al. 2024 (arXiv 2406.12045), section 3. NaN where a task has fewer than k samples.
    """
    return np.where(samples >= k, comb(successes, k) / np.maximum(comb(samples, k), 1), np.nan)


def pass_estimates(successes: IntArray, samples: IntArray, clusters: Labels, k: int, alpha: float) -> PassAtK:
    """Both chances averaged over tasks, with CR2 intervals. One entry a task in each array."""
    if k < 1:
        raise ValueError(f"k = {k}; allowed: 1 or more")
    kept = samples >= k
    means = []
    for chances in (pass_at_k(successes, samples, k), pass_hat_k(successes, samples, k)):
        sums = cluster_sums(clusters.names, clusters.codes[kept], chances[kept])
        means.append(clustered_mean(sums, int(kept.sum()), alpha))
    return PassAtK(k, means[0], means[1], int(np.count_nonzero(~kept)))


def quantile(values: FloatArray, share: float, alpha: float) -> Estimate | NotEstimable:
    """A quantile of independent values with its exact interval from order statistics (Conover 1999, section 3.2).

    An end that no order statistic reaches at this level makes the interval not estimable.
    """
    if not len(values):
        return NotEstimable("no values")
    found = quantile_test(values, q=float(np.quantile(values, share)), p=share).confidence_interval(1 - alpha)
    interval: Interval | NotEstimable = Interval(float(found.low), float(found.high), "order-statistics")
    if not (np.isfinite(found.low) and np.isfinite(found.high)):
        interval = NotEstimable(f"{len(values)} values are too few for an interval of the {share:g} quantile")
    return Estimate(float(np.quantile(values, share)), len(values), None, interval)


def _wilson_where_it_applies(
    task_means: FloatArray, samples: int, kind: OutcomeKind, alpha: float
) -> Interval | NotEstimable:
    if kind is not OutcomeKind.BINARY:
        return NotEstimable("Wilson's interval is for yes-or-no outcomes")
    if samples > 1:
        return NotEstimable("Wilson's interval needs one sample a task: samples of a task are not independent trials")
    return wilson_interval(int(task_means.sum()), len(task_means), alpha)
