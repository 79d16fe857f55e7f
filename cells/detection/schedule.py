"""When a detector of an arm is asked, and how often it may act: warm-up, cadence, budget.

Rules:
1. Before `warmup` turns are complete a detector is not asked; then at every `cadence`-th turn.
2. A detector that has acted `budget` times is asked no more.
3. Turns are 0-based: with a warm-up of 3 the first question is about turn 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ACTIONS = ("note", "stop")


@dataclass(frozen=True)
class ArmDetector:
    """One detector of an arm, as the study fixed it."""

    name: str
    action: str = "note"
    warmup: int = 0
    cadence: int = 1
    budget: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)

    def why_not(self, turn: int, acted: int) -> str | None:
        """None when it is asked about this turn; else `budget`, `warmup` or `cadence`."""
        if acted >= self.budget:
            return "budget"
        if turn < self.warmup:
            return "warmup"
        return "cadence" if (turn - self.warmup) % self.cadence else None
