"""Holm's adjustment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from scoring.statistics.multiplicity import holm


@pytest.mark.parametrize("family", [1, 2, 5, 40])
def test_holm_agrees_with_statsmodels(family: int) -> None:
    p_values = np.random.default_rng(family).beta(0.3, 2, family).tolist()
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]), abs=1e-15)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusting_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    adjusted = [value for value in holm(p_values) if value is not None]
    assert all(p <= after <= 1 for p, after in zip(p_values, adjusted, strict=True))
    ranked = sorted(zip(p_values, adjusted, strict=True))
    assert [after for _, after in ranked] == sorted(adjusted)


def test_a_missing_p_value_stays_missing_and_counts_in_the_family() -> None:
    assert holm([0.01, None, 0.02]) == [pytest.approx(0.03), None, pytest.approx(0.04)]


def test_no_family_has_nothing_to_adjust() -> None:
    assert holm([]) == []
