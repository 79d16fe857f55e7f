"""The noise floor from A/A arms and from the samples of one arm."""

from __future__ import annotations

import numpy as np
import pytest

from scoring.statistics.estimate import NotEstimable
from scoring.statistics.noise_floor import NoiseFloor, floor_of_arms, floor_of_samples


def floor(found: NoiseFloor | NotEstimable) -> NoiseFloor:
    assert isinstance(found, NoiseFloor)
    return found


def test_the_spread_of_a_a_arms_is_that_of_random_signs() -> None:
    differences = np.asarray([1.0, -1, 0, 0, 1, 0, -1, 1, 0, 0] * 10)
    found = floor(floor_of_arms((differences,), np.random.default_rng(1), 20_000))
    assert found.sd == pytest.approx(np.sqrt((differences**2).sum()) / len(differences), rel=0.02)
    assert found.low == pytest.approx(-found.high, abs=0.02)
    assert (found.observed, found.source) == ((differences.mean(),), "A/A arms")


def test_several_a_a_comparisons_are_pooled_and_listed() -> None:
    found = floor(floor_of_arms((np.ones(4), np.asarray([1.0, -1]), np.zeros(0)), np.random.default_rng(1), 100))
    assert (found.observed, found.draws) == ((1.0, 0.0), 100)


def test_samples_of_one_arm_spread_like_two_arms_of_that_many_samples() -> None:
    rng = np.random.default_rng(2)
    tasks, samples = 80, 6
    chances = rng.beta(1, 1, tasks)
    values = rng.binomial(1, chances[:, None], (tasks, samples)).astype(float)
    found = floor(floor_of_samples(values.ravel(), np.repeat(np.arange(tasks), samples), rng, 4_000))
    expected = np.sqrt((values.var(axis=1, ddof=1) * 2 / samples).sum()) / tasks
    assert found.sd == pytest.approx(expected, rel=0.05)


def test_an_estimate_is_laid_beside_the_floor() -> None:
    found = floor(floor_of_arms((np.asarray([1.0, -1] * 20),), np.random.default_rng(1), 999))
    assert found.share_as_large(0.0) == 1.0
    assert found.share_as_large(0.99) == 1 / 1000


def test_nothing_that_is_the_same_gives_no_floor() -> None:
    assert isinstance(floor_of_arms((), np.random.default_rng(1), 10), NotEstimable)
    alone = floor_of_samples(np.asarray([1.0, 0.0]), np.asarray([0, 1]), np.random.default_rng(1), 10)
    assert isinstance(alone, NotEstimable)
