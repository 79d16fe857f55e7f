"""Holm's adjustment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from scoring.statistics.multiplicity import holm


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_agrees_with_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]), abs=1e-15)


def test_a_missing_p_value_stays_missing_and_counts_in_the_family() -> None:
    assert holm([0.01, None, 0.02]) == [pytest.approx(0.03), None, pytest.approx(0.04)]


def test_no_family_has_nothing_to_adjust() -> None:
    assert holm([]) == []
