"""Drift of outcomes along the run."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import linregress, permutation_test

from scoring.statistics.drift import Drift, drift
from scoring.statistics.estimate import NotEstimable

BLOCKS = np.repeat(np.arange(60), 2)
ARMS = np.tile(np.arange(2), 60)
POSITIONS = np.arange(120.0)


def found(values: np.ndarray) -> Drift:
    result = drift(POSITIONS, values, ARMS, BLOCKS, np.random.default_rng(1), 999)
    assert isinstance(result, Drift)
    return result


def test_outcomes_that_sink_along_the_run_are_seen() -> None:
    chance = np.linspace(0.9, 0.1, 120)
    values = np.random.default_rng(3).binomial(1, chance).astype(float)
    assert found(values).p.p < 0.01
    assert found(values).slope == pytest.approx(-0.8, abs=0.25)


def test_a_difference_between_arms_is_no_drift() -> None:
    values = ARMS.astype(float)
    assert found(values).slope == pytest.approx(0, abs=1e-12)
    assert found(values).p.p == 1.0


def test_slope_and_p_agree_with_scipy_on_block_means() -> None:
    values = np.random.default_rng(5).normal(0, 1, 120)
    means = np.asarray([values[arm == ARMS].mean() for arm in (0, 1)])
    level = (values - means[ARMS]).reshape(60, 2).mean(axis=1)
    place = POSITIONS.reshape(60, 2).mean(axis=1) / np.ptp(POSITIONS.reshape(60, 2).mean(axis=1))
    result = found(values)
    assert result.slope == pytest.approx(linregress(place, level).slope)

    def slope(x: np.ndarray) -> float:
        return float(linregress(x, level).slope)

    expected = permutation_test((place,), slope, permutation_type="pairings", n_resamples=1_999, rng=7)
    assert result.p.p == pytest.approx(expected.pvalue, abs=0.06)


def test_cells_without_a_value_are_left_out() -> None:
    values = np.random.default_rng(5).normal(0, 1, 120)
    values[:60] = np.nan
    assert found(values).blocks == 30


@pytest.mark.parametrize(
    ("positions", "values", "reason"),
    [
        (POSITIONS, np.full(120, np.nan), "fewer than three blocks"),
        (POSITIONS, np.where(BLOCKS < 2, 1.0, np.nan), "fewer than three blocks"),
        (np.zeros(120), np.ones(120), "same position"),
    ],
)
def test_too_little_to_see_a_drift_is_said(positions: np.ndarray, values: np.ndarray, reason: str) -> None:
    result = drift(positions, values, ARMS, BLOCKS, np.random.default_rng(1), 9)
    assert isinstance(result, NotEstimable) and reason in result.reason
