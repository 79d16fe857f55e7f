"""What is derived from the wire: one `Derivation` for the gateway while the record grows and for anybody who derives it
again.

Rules:
1. The gateway calls the same methods in the order of the rows that `derive` calls them in; so both give the same bytes.
2. A body that cannot be read as its protocol has no view: its exchange stays in the wire, with an `api_error` row in
   the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cells.errors import EvidenceError
from cells.recording.lanes import LaneBook, Place
from cells.recording.protocols import Unreadable, read_reply, read_request
from cells.recording.trace import TraceDeriver, TraceRow, encode_trace
from cells.recording.transcript import TranscriptDeriver
from cells.recording.usage import UsageDeriver, encode_usage
from cells.recording.views import ReplyView, RequestView
from cells.recording.wire import DETECTOR_LANE, BodyRef, CloseRow, OpenRow, RequestRow, ResponseRow, WireRow


@dataclass(frozen=True)
class Asked:
    """A model request with its view and its place; both null for what is no readable model request."""

    row: RequestRow
    view: RequestView | None
    place: Place | None


@dataclass(frozen=True)
class Derived:
    """Bytes to be appended to the three derived files, and the trace rows as objects."""

    trace: bytes = b""
    transcript: bytes = b""
    usage: bytes = b""
    rows: tuple[TraceRow, ...] = ()


@dataclass
class Derivation:
    """The derived files of one attempt, as they grow."""

    trace: TraceDeriver = field(default_factory=TraceDeriver)
    transcript: TranscriptDeriver = field(default_factory=TranscriptDeriver)
    usage: UsageDeriver = field(default_factory=UsageDeriver)

    @property
    def book(self) -> LaneBook:
        return self.trace.book

    def open(self, row: OpenRow) -> Derived:
        """A segment starts."""
        usage = self.usage.on_open(row.segment)
        return _derived(self.trace.on_open(row), usage=b"".join(map(encode_usage, usage)))

    def request(self, asked: Asked) -> Derived:
        """A request arrived: what it tells about the turn before. Notes come with `sent`."""
        if asked.view is None or asked.place is None:
            return Derived()
        return _derived(self.trace.on_request(asked.row, asked.view, asked.place))

    def sent(self, asked: Asked) -> Derived:
        """The request row is final: its notes, its block of the transcript."""
        if asked.view is None or asked.place is None:
            return Derived()
        rows = self.trace.on_sent(asked.row, asked.place.lane)
        return _derived(rows, self.transcript.on_request(asked.row, asked.view, asked.place))

    def response(self, row: ResponseRow, reply: ReplyView | None, asked: Asked) -> Derived:
        """A response was handed on. A detector's is no part of what the harness did: it counts as usage only."""
        if asked.row.lane == DETECTOR_LANE:
            return _derived([], usage=b"".join(map(encode_usage, self.usage.on_response(row, DETECTOR_LANE))))
        lane = asked.place.lane.id if asked.place else None
        rows = self.trace.on_response(row, reply, asked.place, asked.row)
        usage = b"".join(map(encode_usage, self.usage.on_response(row, lane)))
        return _derived(rows, self.transcript.on_response(row, reply, lane), usage)

    def close(self, row: CloseRow) -> Derived:
        """The record ends."""
        return _derived(self.trace.on_close(row), usage=b"".join(map(encode_usage, self.usage.on_close())))


def _derived(rows: list[TraceRow], transcript: bytes = b"", usage: bytes = b"") -> Derived:
    return Derived(encode_trace(rows), transcript, usage, tuple(rows))


def view_request(row: RequestRow, body: bytes | None) -> RequestView | None:
    """The view that a request row's body gives; None when it is no readable model request."""
    if row.protocol is None or row.lane is None or row.lane == DETECTOR_LANE or body is None:
        return None
    return read_request(row.protocol, body)


def view_reply(row: ResponseRow, request: RequestRow, body: bytes | None) -> ReplyView | None:
    """The view that a response row's body gives; None for errors and for what is no reply of the protocol."""
    if request.protocol is None or request.lane is None or body is None or row.origin != "provider":
        return None
    if row.status is None or row.status >= 300:
        return None
    try:
        return read_reply(request.protocol, body, streamed=row.streamed)
    except Unreadable:
        return None


BodyReader = Callable[[BodyRef], bytes]


def derive(rows: tuple[WireRow, ...], body_of: BodyReader) -> Derived:
    """The three files of a whole record. `EvidenceError` when a row's lane is not the one that the rows before it
    decide."""
    derivation = Derivation()
    asked: dict[int, Asked] = {}
    parts = [part for row in rows for part in _parts(derivation, row, asked, body_of)]
    return Derived(
        b"".join(part.trace for part in parts),
        b"".join(part.transcript for part in parts),
        b"".join(part.usage for part in parts),
        tuple(row for part in parts for row in part.rows),
    )


def _parts(derivation: Derivation, row: WireRow, asked: dict[int, Asked], body_of: BodyReader) -> list[Derived]:
    if isinstance(row, OpenRow):
        return [derivation.open(row)]
    if isinstance(row, CloseRow):
        return [derivation.close(row)]
    if isinstance(row, RequestRow):
        asked[row.exchange] = request = _asked(derivation, row, body_of)
        return [derivation.request(request), derivation.sent(request)]
    request = asked.pop(row.exchange)
    body = body_of(row.body) if row.body else None
    return [derivation.response(row, view_reply(row, request.row, body), request)]


def _asked(derivation: Derivation, row: RequestRow, body_of: BodyReader) -> Asked:
    view = view_request(row, body_of(row.body) if row.body and row.lane else None)
    if view is None:
        return Asked(row, None, None)
    place = derivation.book.place(view)
    if place.lane.id != row.lane or place.ordinal != row.ordinal:
        found = f"{place.lane.id} #{place.ordinal}"
        raise EvidenceError(f"wire: exchange {row.exchange} says {row.lane} #{row.ordinal}; its rows decide {found}")
    return Asked(row, view, place)
