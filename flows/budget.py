"""The study's budget: money already spent, lost attempts included, against [budget] cost."""

from __future__ import annotations

from decimal import Decimal

from flows.freezing import FrozenStudy


def over_budget(study: FrozenStudy) -> str | None:
    """Why the study must not start more cells, None when it may. Unknown costs do not count; `status` says how many."""
    limit = study.plan.design["budget"]["cost"]
    if limit is None:
        return None
    units = study.store.history().units.values()
    spent = sum(
        (Decimal(str(unit.detail["cost"])) for unit in units if unit.detail.get("cost") is not None), Decimal(0)
    )
    if spent < Decimal(limit):
        return None
    return f"the study's budget is spent: {spent} of {limit}; raise [budget] cost and `assay plan --accept` to go on"
