"""Sums of paired differences by cluster, and the CR2 standard error with Satterthwaite degrees of freedom.

All intervals of this package need no more than the sum and the size of each cluster: the estimate is the ratio of the
two totals, which weights every task alike. `sums` has the shape (studies, clusters), `sizes` the shape (clusters): one
study is a batch of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoring.statistics.estimate import FloatArray, IntArray


@dataclass(frozen=True)
class ClusterSums:
    """Clusters in the order of their names: the sum of the differences of each, and how many tasks it holds."""

    names: tuple[str, ...]
    sums: FloatArray
    sizes: FloatArray

    @property
    def mean(self) -> float:
        """The mean difference over all tasks."""
        return float(self.sums.sum() / self.sizes.sum())


def cluster_sums(names: tuple[str, ...], codes: IntArray, values: FloatArray) -> ClusterSums:
    """Sum `values` by cluster; clusters without a value are left out."""
    sizes = np.bincount(codes, minlength=len(names)).astype(np.float64)
    sums = np.bincount(codes, weights=values, minlength=len(names)).astype(np.float64)
    kept = np.flatnonzero(sizes)
    return ClusterSums(tuple(names[index] for index in kept), sums[kept], sizes[kept])


def effective_clusters(sizes: FloatArray) -> float:
    """Kish's effective number of clusters, (sum n)^2 / sum n^2 (Kish 1965, Survey Sampling): G for equal sizes."""
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def cr2(sums: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Means, CR2 standard errors and the Satterthwaite degrees of freedom of a mean with clusters.

    Bell and McCaffrey 2002 (Survey Methodology 28); Pustejovsky and Tipton 2018 (JBES 36), for an intercept alone under
    working independence: the adjustment of cluster g with n_g of N tasks is (1 - n_g/N)^(-1/2) along the unit vector.
    """
    total = sizes.sum()
    means = sums.sum(axis=-1) / total
    residuals = sums - means[..., None] * sizes
    variances = (residuals**2 / (1 - sizes / total)).sum(axis=-1) / total**2
    return means, np.sqrt(variances), satterthwaite_df(sizes)


def satterthwaite_df(sizes: FloatArray) -> float:
    """(trace P)^2 / trace(P P) for the CR2 quadratic form of a mean; G - 1 when all clusters are of one size."""
    share = sizes / sizes.sum()
    weights = share**2 / (1 - share)
    squares = (share**2).sum() + weights.sum() ** 2 - (weights**2).sum()
    return float(1 / squares)
