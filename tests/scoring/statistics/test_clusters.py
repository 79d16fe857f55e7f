"""The CR2 standard error and its degrees of freedom against the general matrix formula and known special cases."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.linalg import sqrtm
from scipy.stats import ttest_1samp

from scoring.statistics.clusters import cluster_sums, cr2, effective_clusters, satterthwaite_df

SIZES = np.asarray([9.0, 4.0, 3.0, 3.0, 1.0])
CODES = np.repeat(np.arange(5), SIZES.astype(int))
VALUES = np.random.default_rng(8).normal(0.2, 1, 20) + 0.7 * np.asarray([0.3, -1, 1, 0.5, -0.2])[CODES]
SUMS = np.bincount(CODES, weights=VALUES).astype(np.float64)


def general_cr2() -> tuple[float, float]:
    """CR2 and its degrees of freedom for any design matrix, by matrix algebra (Pustejovsky and Tipton 2018)."""
    design = np.ones((len(VALUES), 1))
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    residuals = VALUES - design @ bread @ design.T @ VALUES
    meat, columns = np.zeros((1, 1)), []
    for code in range(len(SIZES)):
        own = np.flatnonzero(code == CODES)
        block = np.eye(len(own)) - hat[np.ix_(own, own)]
        adjust = np.linalg.inv(np.real(sqrtm(block)))
        score = design[own].T @ adjust @ residuals[own]
        meat += np.outer(score, score)
        columns.append((np.eye(len(VALUES)) - hat)[:, own] @ adjust @ design[own] @ bread)
    products = np.hstack(columns).T @ np.hstack(columns)
    return float(np.sqrt(bread @ meat @ bread)[0, 0]), float(np.trace(products) ** 2 / (products**2).sum())


def test_cr2_agrees_with_the_general_matrix_formula() -> None:
    mean, error, degrees = cr2(SUMS[None, :], SIZES)
    expected_error, expected_degrees = general_cr2()
    assert float(mean[0]) == pytest.approx(VALUES.mean())
    assert float(error[0]) == pytest.approx(expected_error, rel=1e-10)
    assert degrees == pytest.approx(expected_degrees, rel=1e-10)


def test_clusters_of_one_task_give_students_test() -> None:
    _, error, degrees = cr2(VALUES[None, :], np.ones(len(VALUES)))
    expected = ttest_1samp(VALUES, 0)
    assert VALUES.mean() / float(error[0]) == pytest.approx(expected.statistic, rel=1e-12)
    assert degrees == pytest.approx(expected.df, rel=1e-12)


def test_equal_clusters_give_the_usual_clustered_error_times_its_correction() -> None:
    fitted = sm.OLS(VALUES, np.ones(20)).fit(
        cov_type="cluster", cov_kwds={"groups": np.repeat(np.arange(5), 4), "use_correction": False}
    )
    _, error, degrees = cr2(VALUES.reshape(5, 4).sum(axis=1)[None, :], np.full(5, 4.0))
    assert float(error[0]) == pytest.approx(fitted.bse[0] * np.sqrt(5 / 4), rel=1e-10)
    assert degrees == pytest.approx(4)


def test_one_large_cluster_leaves_few_degrees_of_freedom() -> None:
    assert satterthwaite_df(np.asarray([100.0, 1, 1, 1, 1, 1, 1, 1, 1, 1])) < 2
    assert effective_clusters(np.asarray([100.0, 1, 1, 1, 1])) < 1.1


def test_clusters_without_a_value_are_left_out() -> None:
    sums = cluster_sums(("a", "b", "c"), np.asarray([0, 2, 2]), np.asarray([1.0, 0.0, 1.0]))
    assert (sums.names, sums.sums.tolist(), sums.sizes.tolist()) == (("a", "c"), [1, 1], [1, 2])
    assert sums.mean == pytest.approx(2 / 3)
