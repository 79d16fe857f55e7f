"""Simulated studies have the difference that they say they have."""

from __future__ import annotations

import numpy as np
import pytest

from scoring.statistics.simulation import OutcomeModel, mean_chance, simulate_differences, sums_by_cluster

SIZES = np.asarray([6.0, 3, 1])


@pytest.mark.parametrize("model", [OutcomeModel(-0.3, 0.7, 1.0, 1.5, 1.6, 0.5), OutcomeModel(-3.0, 1.0, 0.5, 1.0)])
def test_the_mean_of_many_studies_is_the_true_difference(model: OutcomeModel) -> None:
    batches = list(simulate_differences(SIZES, 2, model, 60_000, np.random.default_rng(1)))
    assert np.concatenate(batches).mean() == pytest.approx(model.true_difference, abs=0.006)


def test_no_effect_is_exactly_no_difference() -> None:
    assert OutcomeModel(-1.0, 0.0, 1.0, 1.0).true_difference == 0.0


def test_the_mean_chance_without_spread_is_the_chance() -> None:
    assert mean_chance(0.0, 0.0) == pytest.approx(0.5)
    assert mean_chance(np.log(0.2 / 0.8), 0.0) == pytest.approx(0.2)


def test_sums_are_those_of_neighbouring_tasks() -> None:
    (batch,) = simulate_differences(SIZES, 1, OutcomeModel(0.0, 1.0, 1.0, 1.0), 5, np.random.default_rng(1))
    assert batch.shape == (5, 10)
    sums = sums_by_cluster(batch, SIZES)
    np.testing.assert_allclose(sums, np.stack([batch[:, :6].sum(1), batch[:, 6:9].sum(1), batch[:, 9]], axis=1))
