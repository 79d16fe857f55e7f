"""The arrival of a request: its place, what it tells of the turn before, the decision, the limits, and its row.

Rules:
1. Everything here happens before a byte is sent on, in one piece: no other row of the cell comes between.
2. A request is placed and recorded also when it is refused: it tells the results of the turn before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cells.outcome import Ended
from cells.recording.blobs import PreparedBody
from cells.recording.derive import Asked
from cells.recording.lanes import Place
from cells.recording.protocols import Unreadable, read_request
from cells.recording.views import RequestView
from cells.recording.wire import Note, Peer, RequestRow
from launchers.gateway.budget import LimitHit, limit_hit
from launchers.gateway.decisions import CompletedTurn, decide
from launchers.gateway.record import Stamp
from launchers.gateway.refusals import Refusal, too_long
from launchers.gateway.routes import Route, route
from launchers.gateway.session import Session

_TEXT_CAP = 500


@dataclass(frozen=True)
class Incoming:
    """A request as the listener read it. `body` is null when it could not be read; `fault` then says why."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes | None
    peer: Peer
    fault: Refusal | None = None


@dataclass(frozen=True)
class Arrived:
    """A request with its row on the way to the disk: `mark` is what to wait for."""

    asked: Asked
    found: Route
    sent_body: bytes
    refusal: Refusal | None
    mark: int

    @property
    def place(self) -> Place | None:
        return self.asked.place


async def arrive(session: Session, incoming: Incoming) -> Arrived:
    """Place, decide and record a request."""
    found = route(incoming.method, incoming.path)
    body = await session.record.prepared(incoming.body or b"")
    async with session.record.arrival():
        stamp = session.record.stamp()
        exchange = session.record.next_exchange()
        view, refusal = _read(session, incoming, found)
        place = session.record.derivation.book.place(view) if view is not None else None
        asked = Asked(_row(session, incoming, found, stamp, exchange, place), view, place)
        parts = session.record.derivation.request(asked)
        session.record.derived(parts)
        if session.watcher is not None:
            session.fresh_rows += parts.rows
        note_turn = await _decided(session, asked)
        refusal = refusal or _refused(session, asked, found)
        return _recorded(session, found, asked, refusal, _Body(incoming.body or b"", body, note_turn))


def _read(session: Session, incoming: Incoming, found: Route) -> tuple[RequestView | None, Refusal | None]:
    if incoming.fault is not None or incoming.body is None:
        return None, incoming.fault or Refusal(400, "no_body", "the request has no body")
    session.limit = session.limit or _full(session)
    if session.limit is not None and _full(session) is not None:
        return None, session.refusal_for_all()
    if found.protocol is None:
        known = found.local or found.side
        return None, None if known else Refusal(
            404, "not_found", f"{incoming.method} {incoming.path[:200]} is not served"
        )
    if found.protocol not in session.provider.protocols:
        spoken = ", ".join(sorted(session.provider.protocols))
        return None, Refusal(404, "wrong_protocol", f"this model speaks {spoken}; asked in {found.protocol}")
    try:
        return read_request(found.protocol, incoming.body), None
    except Unreadable as error:
        return None, Refusal(400, "unreadable_request", str(error))


def _row(
    session: Session, incoming: Incoming, found: Route, stamp: Stamp, exchange: int, place: Place | None
) -> RequestRow:
    """The row without number, body and notes: what derivation needs before it is final."""
    book = session.record.derivation.book
    decided = None if book.main is None or place is None else place.lane is book.main
    target = incoming.path + (f"?{incoming.query}" if incoming.query else "")
    return RequestRow(
        seq=0,
        t_mono_s=stamp.t_mono_s,
        at=stamp.at,
        exchange=exchange,
        lane=place.lane.id if place else None,
        ordinal=place.ordinal if place else None,
        main=decided,
        protocol=found.protocol,
        method=_ascii(incoming.method),
        path=_ascii(target),
        headers={name: _ascii(value) for name, value in incoming.headers.items()},
        body=None,
        peer=incoming.peer,
    )


def _ascii(text: str) -> str:
    return text[:_TEXT_CAP].encode("ascii", "backslashreplace").decode()


async def _decided(session: Session, asked: Asked) -> int | None:
    """Ask the watcher about the turn that this request completes; the turn whose note is new, if there is one."""
    place, view = asked.place, asked.view
    if session.watcher is None or place is None or view is None or session.refusal_for_all() is not None:
        return None
    turn = place.lane.completed - 1
    if place.lane is not session.record.derivation.book.main or turn <= session.decided_turn:
        return None
    session.decided_turn = turn
    rows, session.fresh_rows = tuple(session.fresh_rows), []
    prefix = session.record.prefix
    decision, fault = await decide(session.watcher, CompletedTurn(turn, rows, prefix.length, prefix.digest))
    if fault is not None:
        session.counters.errors += 1
    session.stop_requested = session.stop_requested or decision.action == "stop"
    if decision.action != "note" or not decision.note:
        return None
    session.notes.add(decision.note, turn, view)
    return turn


def _refused(session: Session, asked: Asked, found: Route) -> Refusal | None:
    """Why the request is not passed on."""
    if found.local is not None:
        return None
    for_all = session.refusal_for_all()
    if for_all is not None or asked.view is None or asked.place is None:
        return for_all
    book = session.record.derivation.book
    main = book.may_be_main(asked.place.lane)
    turns = asked.place.lane.completed + session.main_under_way
    session.limit = limit_hit(session.cell.limits, session.spent, turns, main=main)
    return session.refusal_for_all() or _context(session, asked, main)


def _full(session: Session) -> LimitHit | None:
    used, allowed = session.record.size + session.counters.received // 8, session.cell.max_record
    if used <= allowed:
        return None
    return LimitHit(Ended.REQUEST_LIMIT, f"the record has {used} bytes, allowed {allowed}")


def _context(session: Session, asked: Asked, main: bool) -> Refusal | None:
    limit, known = session.cell.input_limit, asked.place.known_tokens if asked.place else None
    if limit is None or known is None or known <= limit or asked.view is None:
        return None
    session.context_refused = session.context_refused or main
    return too_long(known, limit, asked.view.protocol)


@dataclass(frozen=True)
class _Body:
    """A request's bytes, what is stored of them, and the turn whose note is new in them."""

    plain: bytes
    stored: bytes | PreparedBody
    note_turn: int | None


def _recorded(session: Session, found: Route, asked: Asked, refusal: Refusal | None, body: _Body) -> Arrived:
    record = session.record
    sent, notes = _with_notes(session, asked, body) if refusal is None else (body.plain, ())
    stored = record.store(body.stored) if body.plain and _full(session) is None else None
    changed = record.store(sent) if notes else None

    def row(seq: int) -> RequestRow:
        return asked.row.model_copy(update={"seq": seq, "body": stored, "sent": changed, "notes": notes})

    final = Asked(record.write(row), asked.view, asked.place)
    parts = record.derivation.sent(final)
    record.derived(parts)
    if session.watcher is not None:
        session.fresh_rows += parts.rows
    return Arrived(final, found, sent, refusal, record.flush())


def _with_notes(session: Session, asked: Asked, body: _Body) -> tuple[bytes, tuple[Note, ...]]:
    place, view = asked.place, asked.view
    if not session.notes.placed or place is None or view is None:
        return body.plain, ()
    if place.lane is not session.record.derivation.book.main:
        return body.plain, ()
    return session.notes.apply(body.plain, view, body.note_turn)
