"""Limits of a cell: study, task and arm tightened into one. A wider limit in an arm or a task is refused, never
silently cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from cells.design.cell import CellLimits
from cells.design.study_model import LimitsSection, TighterLimits


class WiderLimit(ValueError):
    """An arm or a task asks for more than the study allows; `key` is the limit's name."""

    def __init__(self, key: str, asked: object, allowed: object) -> None:
        super().__init__(f"asked for {asked}, the study allows {allowed}; an arm or task may only tighten")
        self.key = key


def study_limits(section: LimitsSection) -> CellLimits:
    """The study's [limits] as the limits of a cell that nothing tightens."""
    values = section.model_dump()
    return CellLimits(**values | {"cost": None if section.cost is None else str(section.cost)})


def tightened(limits: CellLimits, by: Mapping[str, Any] | TighterLimits) -> CellLimits:
    """`limits` with each given value in place. WiderLimit when one is above what `limits` says."""
    asked = (
        by.model_dump(exclude_none=True)
        if isinstance(by, TighterLimits)
        else {k: v for k, v in by.items() if v is not None}
    )
    current = asdict(limits)
    for key, value in asked.items():
        if current[key] is not None and Decimal(str(value)) > Decimal(str(current[key])):
            raise WiderLimit(key, value, current[key])
    typed: dict[str, Any] = {key: str(value) if key == "cost" else value for key, value in asked.items()}
    return replace(limits, **typed)
