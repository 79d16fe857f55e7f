"""Fractions of tests passed, exact until printed, with a stated rule for tasks that have no such test.

Rule: a fraction with the denominator 0 is 0 (`ZeroTotal.ZERO`, as in the Yuj data) or no value at all
(`ZeroTotal.MISSING`); either way tables count it.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction


class ZeroTotal(StrEnum):
    """What a fraction with the denominator 0 is."""

    ZERO = "zero"
    MISSING = "missing"


def fraction_of(passed: int, total: int, rule: ZeroTotal = ZeroTotal.ZERO) -> Fraction | None:
    """passed / total. ValueError for counts that no test run can have."""
    if passed < 0 or passed > total:
        raise ValueError(f"passed {passed} of total {total}; allowed: 0 <= passed <= total")
    if total == 0:
        return Fraction(0) if rule is ZeroTotal.ZERO else None
    return Fraction(passed, total)
