"""Holm's adjustment over a family of planned comparisons."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p values in the given order (Holm 1979, Scandinavian Journal of Statistics 6).

    None stays None but counts in the size of the family: a planned comparison that gave no p value was still planned.
    """
    family = len(p_values)
    adjusted: list[float | None] = [None] * family
    highest = 0.0
    ranked = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    for rank, (p, index) in enumerate(ranked):
        highest = max(highest, min(1.0, (family - rank) * p))
        adjusted[index] = highest
    return adjusted
