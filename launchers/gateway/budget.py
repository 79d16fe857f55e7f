"""The budget of a cell: what it may still ask, from its limits and what is known to be used.

Rules:
1. A limit is checked before a request is passed on; the request that would pass it is refused and the cell is to be
   ended.
2. Turns count completed exchanges of main and those under way; requests count model calls that were passed on.
3. Tokens and cost are the provider's counts as far as they are known; what is unknown cannot be limited, and is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from cells.design.cell import CellLimits
from cells.outcome import Ended
from cells.recording.usage import Sum
from cells.recording.wire import Usage


@dataclass(frozen=True)
class LimitHit:
    """Which limit, and the figures."""

    ended: Ended
    detail: str


@dataclass
class Spent:
    """What a cell used: known sums for limits, exact sums that become unknown for totals."""

    requests: int = 0
    known_tokens: int = 0
    known_cost: Decimal = Decimal(0)
    input: Sum = field(default_factory=Sum)
    cached: Sum = field(default_factory=Sum)
    cache_write: Sum = field(default_factory=Sum)
    output: Sum = field(default_factory=Sum)
    reasoning: Sum = field(default_factory=Sum)
    cost: Decimal | None = Decimal(0)

    def add(self, usage: Usage | None, cost: Decimal | None) -> None:
        """A reply that was paid for, whole or not."""
        told = usage or Usage()
        self.known_tokens += (told.input or 0) + (told.output or 0)
        self.known_cost += cost or Decimal(0)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        self.input.add(told.input)
        self.cached.add(told.cached)
        self.cache_write.add(told.cache_write)
        self.output.add(told.output)
        self.reasoning.add(told.reasoning)


def limit_hit(limits: CellLimits, spent: Spent, turns_taken: int, *, main: bool) -> LimitHit | None:
    """The limit that one more request would pass; `turns_taken` are turns done or under way."""
    if main and limits.turns is not None and turns_taken >= limits.turns:
        return LimitHit(Ended.TURN_LIMIT, f"{turns_taken} turns, allowed {limits.turns}")
    if limits.requests is not None and spent.requests >= limits.requests:
        return LimitHit(Ended.REQUEST_LIMIT, f"{spent.requests} requests, allowed {limits.requests}")
    if limits.total_tokens is not None and spent.known_tokens >= limits.total_tokens:
        return LimitHit(Ended.TOKEN_LIMIT, f"{spent.known_tokens} tokens, allowed {limits.total_tokens}")
    if limits.cost is not None and spent.known_cost >= Decimal(limits.cost):
        return LimitHit(Ended.COST_LIMIT, f"{spent.known_cost} spent, allowed {limits.cost}")
    return None
