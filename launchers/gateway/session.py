"""A session: everything the gateway knows of one cell while it is open.

Rules:
1. A hard limit, a failure or a controller's stop is final: every later model request is refused with the same word.
2. What a cell does touches its own session only; endpoints are the one thing that sessions share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from cells.design.study_model import Price
from cells.outcome import Ended
from cells.recording.trace import TraceRow
from launchers.gateway.budget import LimitHit, Spent
from launchers.gateway.contract import GatewayCell, SessionStatus, SessionTotals
from launchers.gateway.decisions import TurnWatcher
from launchers.gateway.notes import Notes
from launchers.gateway.providers.base import Provider
from launchers.gateway.record import SessionRecord
from launchers.gateway.refusals import Refusal
from launchers.gateway.tries import Tries
from launchers.gateway.waiting import WaitingClock


@dataclass
class Counters:
    """What happened, for status and totals."""

    retries: int = 0
    errors: int = 0
    clients_gone: int = 0
    queue_s: float = 0.0
    received: int = 0
    detector_calls: int = 0


@dataclass
class Session:
    """One open cell."""

    cell: GatewayCell
    record: SessionRecord
    provider: Provider
    tries: Tries
    price: Price | None
    watcher: TurnWatcher | None = None
    spent: Spent = field(default_factory=Spent)
    waiting: WaitingClock = field(default_factory=WaitingClock)
    counters: Counters = field(default_factory=Counters)
    notes: Notes = field(default_factory=Notes)
    limit: LimitHit | None = None
    failure: tuple[str, str] | None = None
    stop_requested: bool = False
    context_refused: bool = False
    unanswered: tuple[str, str] | None = None
    main_under_way: int = 0
    decided_turn: int = -1
    fresh_rows: list[TraceRow] = field(default_factory=list)
    """Trace rows that no decision has seen yet; kept only while there is a watcher."""

    @property
    def model_name(self) -> str:
        """The served name of the model: what a harness asks for."""
        return str(self.cell.model.get("model") or self.cell.model.get("name") or "model")

    def fail(self, reason: str, detail: str) -> None:
        """The cell is lost; the first reason stands."""
        self.failure = self.failure or (reason, detail)

    def refusal_for_all(self) -> Refusal | None:
        """Why no model request is passed on any more; None while they are."""
        if self.failure is not None:
            return Refusal(503, self.failure[0], f"this cell is lost: {self.failure[0]}")
        if self.stop_requested:
            return Refusal(403, Ended.STOPPED_BY_CONTROLLER.value, "the controller stopped this run")
        if self.limit is not None:
            return Refusal(403, self.limit.ended.value, f"the limit of this run is reached: {self.limit.detail}")
        return None

    def status(self) -> SessionStatus:
        """A snapshot."""
        return SessionStatus(
            turns=self.record.derivation.book.turns,
            requests=self.spent.requests,
            exchanges=self.record.exchanges,
            tokens=self.spent.known_tokens,
            cost=self.spent.known_cost,
            waiting_s=self.waiting.seconds,
            queue_s=self.counters.queue_s,
            record_bytes=self.record.size,
            limit_hit=self.limit.ended if self.limit else None,
            limit_detail=self.limit.detail if self.limit else None,
            failure=self.failure[0] if self.failure else None,
            failure_detail=self.failure[1] if self.failure else None,
            stop_requested=self.stop_requested,
            context_refused=self.context_refused,
            unanswered=self.unanswered[0] if self.unanswered else None,
        )

    def totals(self) -> SessionTotals:
        """What a closed session did."""
        failure = self.failure or self.unanswered
        spent = self.spent
        return SessionTotals(
            turns=self.record.derivation.book.turns,
            requests=spent.requests,
            exchanges=self.record.exchanges,
            lanes=len(self.record.derivation.book.lanes),
            input_tokens=spent.input.value,
            cached_tokens=spent.cached.value,
            cache_write_tokens=spent.cache_write.value,
            output_tokens=spent.output.value,
            reasoning_tokens=spent.reasoning.value,
            cost=self._total_cost(),
            currency=self.price.currency if self.price else None,
            waiting_s=self.waiting.seconds,
            queue_s=self.counters.queue_s,
            retries=self.counters.retries,
            errors=self.counters.errors,
            clients_gone=self.counters.clients_gone,
            record_bytes=self.record.size,
            limit_hit=self.limit.ended if self.limit else None,
            failure=failure[0] if failure else None,
            failure_detail=failure[1] if failure else None,
            stop_requested=self.stop_requested,
            context_refused=self.context_refused,
        )

    def _total_cost(self) -> Decimal | None:
        """Null without prices: a scripted run costs nothing that anybody knows."""
        return self.spent.cost if self.price is not None else None


def price_of(model: Mapping[str, Any]) -> Price | None:
    """The prices of a model section."""
    price = model.get("price")
    return None if price is None else Price.model_validate(price)
