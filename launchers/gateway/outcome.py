"""What became of an exchange: its response row, its price, and what it means for the cell.

Rules:
1. `status` is what the cell got; the provider's own statuses stand in the tries.
2. A reply that was paid for and has no count makes the sums unknown; what the provider never got costs nothing.
3. A provider that refuses the study (key, money, model) on main loses the cell: its refusal is no behaviour of the
   harness.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from decimal import Decimal

from cells.recording.protocols import Unreadable, read_reply
from cells.recording.usage import cost_of, plain, was_paid
from cells.recording.views import ReplyView
from cells.recording.wire import Protocol, ResponseRow, Timing
from launchers.gateway.answer import Answer
from launchers.gateway.arrival import Arrived
from launchers.gateway.session import Session

_REFUSES_STUDY = frozenset((401, 402, 403, 404))


@dataclass(frozen=True)
class Moment:
    """The row's number, when its exchange began (time.monotonic()), and what it cost."""

    seq: int
    begun: float
    cost: Decimal | None


def told_reply(answer: Answer, protocol: Protocol | None) -> ReplyView | None:
    """What the provider said, as far as it can be read."""
    if answer.reply is not None or protocol is None or not answer.by_provider or answer.body is None:
        return answer.reply
    try:
        return read_reply(protocol, bytes(answer.body), streamed=answer.streamed)
    except Unreadable:
        return None


def handed_on(row: ResponseRow, told: ReplyView | None) -> ReplyView | None:
    """The reply that counts for what is derived: the provider's, when the cell got it."""
    return told if row.origin == "provider" and row.status is not None and row.status < 300 else None


def response_row(
    session: Session, arrived: Arrived, answer: Answer, told: ReplyView | None, moment: Moment
) -> ResponseRow:
    """The row of a response."""
    stamp = session.record.stamp()
    timing = Timing(
        queue_s=round(answer.log.queue_s, 6),
        first_byte_s=None if answer.log.first_byte_s is None else round(answer.log.first_byte_s, 6),
        total_s=round(time.monotonic() - moment.begun, 6),
        provider_s=round(answer.provider_s, 6),
    )
    return ResponseRow(
        seq=moment.seq,
        t_mono_s=stamp.t_mono_s,
        at=stamp.at,
        exchange=arrived.asked.row.exchange,
        status=answer.status,
        origin="provider" if answer.by_provider else "gateway",
        headers={
            name: value[:500].encode("ascii", "backslashreplace").decode() for name, value in answer.headers.items()
        },
        streamed=answer.streamed,
        body=None if answer.body is None else session.record.store(bytes(answer.body)),
        sent=None if answer.sent is None else session.record.store(answer.sent),
        complete=answer.complete and not answer.client_gone,
        usage=told.usage if told is not None and answer.by_provider else None,
        tries=tuple(answer.log.tries),
        timing=timing,
        error=answer.error,
        client_gone=answer.client_gone,
        cost=None if moment.cost is None else plain(moment.cost),
        currency=session.price.currency if session.price and moment.cost is not None else None,
    )


def charge(session: Session, answer: Answer, told: ReplyView | None) -> Decimal | None:
    """Count a model call that was passed on; its price, None when it is not known."""
    usage = told.usage if told is not None and answer.by_provider else None
    cost = cost_of(usage, session.price)
    if was_paid(answer.log.tries):
        session.spent.add(usage, cost)
    return cost


def note_outcome(session: Session, arrived: Arrived, answer: Answer, row: ResponseRow) -> None:
    """Count, and draw the consequences for the cell."""
    counters = session.counters
    counters.retries += max(0, len(answer.log.tries) - 1)
    counters.errors += row.error is not None
    counters.clients_gone += row.client_gone
    counters.queue_s += answer.log.queue_s
    place = arrived.place
    if place is None or arrived.refusal is not None or not session.record.derivation.book.may_be_main(place.lane):
        return
    session.context_refused = answer.too_long
    if answer.by_provider and answer.status in _REFUSES_STUDY:
        session.fail("provider_refused", f"status {answer.status}")
    session.unanswered = _unanswered(answer, row)


def _unanswered(answer: Answer, row: ResponseRow) -> tuple[str, str] | None:
    """The provider's fault that left the request without a reply; None when it was answered or the cell went away."""
    if row.complete or row.client_gone or answer.too_long or row.error is None:
        return None
    if answer.by_provider and answer.status is not None and 400 <= answer.status < 500 and answer.status != 429:
        return None
    return "provider_error", f"{row.error.kind}: {row.error.detail}"
