"""Fractions of tests passed: exact, and with a rule where there is no test."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scoring.statistics.fractions import ZeroTotal, fraction_of


def test_a_fraction_is_exact() -> None:
    assert fraction_of(1, 3) == Fraction(1, 3)


def test_a_zero_denominator_is_zero_by_default_and_missing_by_choice() -> None:
    assert fraction_of(0, 0) == 0
    assert fraction_of(0, 0, ZeroTotal.MISSING) is None


@pytest.mark.parametrize(("passed", "total"), [(-1, 2), (3, 2), (0, -1)])
def test_counts_that_no_run_can_have_are_refused(passed: int, total: int) -> None:
    with pytest.raises(ValueError, match="allowed: 0 <= passed <= total"):
        fraction_of(passed, total)
