"""Exact tests against published values and independent implementations."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import permutation_test
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.descriptivestats import sign_test

from scoring.statistics.estimate import FloatArray, NotEstimable, PValue
from scoring.statistics.exact_tests import mcnemar_exact, sign_exact, sign_flip_test, signs

DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Differences in height of Darwin's 15 pairs of maize plants, in eighths of an inch (Fisher 1935, section 17)."""


def flip_p(differences: Sequence[float] | FloatArray, draws: int = 999) -> PValue:
    found = sign_flip_test(np.asarray(differences, dtype=np.float64), np.random.default_rng(1), draws)
    assert isinstance(found, PValue)
    return found


def mean(sample: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(sample.mean(axis=axis))


@pytest.mark.parametrize(("control_only", "treatment_only"), [(5, 34), (9, 20), (10, 9), (0, 22), (1, 1), (0, 1)])
def test_mcnemar_agrees_with_statsmodels(control_only: int, treatment_only: int) -> None:
    expected = mcnemar([[3, control_only], [treatment_only, 7]], exact=True).pvalue
    assert mcnemar_exact(control_only, treatment_only).p == pytest.approx(expected, rel=1e-12)


def test_mcnemar_of_no_discordant_pair_is_one() -> None:
    assert mcnemar_exact(0, 0).p == 1.0


def test_the_sign_test_agrees_with_statsmodels() -> None:
    assert sign_exact(*signs(np.asarray(DARWIN))[:2]).p == pytest.approx(sign_test(DARWIN, 0)[1], rel=1e-12)


def test_the_permutation_test_gives_fishers_value_for_darwins_plants() -> None:
    # Fisher 1935, section 21: 863 of the 32,768 arrangements have a sum of 314 or more; two-sided 1,726.
    found = flip_p(DARWIN)
    assert found.method == "permutation-exact"
    assert found.p == pytest.approx(1726 / 32768, rel=1e-12)


@given(st.lists(st.sampled_from([-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=9))
def test_whole_multiples_of_a_unit_agree_with_scipys_enumeration(differences: list[float]) -> None:
    found = flip_p(differences)
    expected = permutation_test((differences,), mean, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    assert found.method == "permutation-exact"
    assert found.p == pytest.approx(1.0 if not any(differences) else expected.pvalue, abs=1e-12)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=9))
def test_few_pairs_of_any_size_agree_with_scipys_enumeration(differences: list[float]) -> None:
    moved = [value for value in differences if abs(value) > 1e-6] + [0.123456789, -0.1]
    expected = permutation_test((moved,), mean, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    assert flip_p(moved).p == pytest.approx(expected.pvalue, abs=1e-12)


def test_many_pairs_of_any_size_are_drawn_and_say_so() -> None:
    differences = np.random.default_rng(3).normal(0.25, 1, 60)
    found = flip_p(differences, draws=20_000)
    expected = permutation_test(
        (differences,), mean, permutation_type="samples", n_resamples=20_000, vectorized=True, rng=5
    )
    assert found.method == "permutation-monte-carlo-20000"
    assert found.p == pytest.approx(expected.pvalue, abs=0.01)


def test_a_drawn_p_value_is_never_zero() -> None:
    differences = np.random.default_rng(3).uniform(0.5, 1, 60)
    assert flip_p(differences, draws=999).p == 1 / 1000


def test_very_many_pairs_use_the_normal_limit_and_say_so() -> None:
    differences = np.random.default_rng(3).normal(0, 1, 30_000)
    found = flip_p(differences)
    z = abs(differences.sum()) / np.sqrt((differences**2).sum())
    assert found.method == "permutation-normal-limit"
    assert found.p == pytest.approx(2 * (1 - NormalDist().cdf(z)), rel=1e-9)


def test_all_ties_give_p_one_and_no_pairs_give_no_p() -> None:
    assert flip_p([0.0, 0.0, 1e-17]).p == 1.0
    assert isinstance(sign_flip_test(np.zeros(0), np.random.default_rng(1), 9), NotEstimable)


@given(st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=12))
def test_neither_the_order_of_pairs_nor_the_direction_of_the_question_matters(values: list[float]) -> None:
    shuffled = sorted(values)
    assert flip_p(values).p == pytest.approx(flip_p(shuffled).p, abs=1e-9)
    assert flip_p(values).p == pytest.approx(flip_p([-value for value in values]).p, abs=1e-9)


def test_rounding_noise_is_a_tie() -> None:
    assert signs(np.asarray([0.1 + 0.2 - 0.3, 1e-15, 0.5, -0.5])) == (1, 1, 2)
