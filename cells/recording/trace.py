"""The trace: live/trace.jsonl, derived from the wire while it grows, byte-identical when derived again.

Rules (25-formats, saved-files "Trace event fields"):
1. Envelope `{v, seq, event, segment, turn, lane, t_mono_s, wire}`; `lane` is "main" or the lane's id, `turn` is null
   outside main, `wire` is the exchange.
2. Rows of turn N are complete when the next request of main arrives: its results become the `tool_call` rows of turn N,
   before it is forwarded.
3. While it is not decided which lane is main, rows of the first lane are held back; nothing is written that a later row
   would contradict.
4. What is too long is capped and says so; digests are over the whole. An exit status comes from a field, never from
   text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cells.evidence.digest import digest_bytes
from cells.recording.lanes import Lane, LaneBook, Place
from cells.recording.loose_json import loose_bytes
from cells.recording.views import ReplyView, RequestView, ToolCall, ToolResult
from cells.recording.wire import CloseRow, Note, OpenRow, RequestRow, ResponseRow, Usage

TRACE_VERSION = 1
ARGUMENTS_CAP = 4000
SUMMARY_CAP = 600
_NAME_CAP = 200
_MAX_OPEN = 4096

TraceRow = dict[str, Any]


def encode_trace_row(row: TraceRow) -> bytes:
    """The line of a trace row, newline included, keys sorted."""
    return loose_bytes(row) + b"\n"


@dataclass(frozen=True)
class _OpenCall:
    lane: Lane
    number: int
    has_id: bool
    fields: TraceRow


@dataclass(frozen=True)
class _Held:
    lane: Lane
    number: int | None
    fields: TraceRow


@dataclass
class TraceDeriver:
    """Turns wire rows and the views of their bodies into trace rows; each method returns the rows that became final."""

    book: LaneBook = field(default_factory=LaneBook)
    _seq: int = 0
    _segment: int = 0
    _open: dict[tuple[str, str], _OpenCall] = field(default_factory=dict)
    _held: list[_Held] = field(default_factory=list)
    _lengths: dict[str, int] = field(default_factory=dict)
    _attempts: dict[str, int] = field(default_factory=dict)

    def on_open(self, row: OpenRow) -> list[TraceRow]:
        """A segment starts: its run-start provenance."""
        self._segment = row.segment
        return [self._row(None, None, row.t_mono_s, None, "session_start", **row.provenance)]

    def on_request(self, row: RequestRow, view: RequestView, place: Place) -> list[TraceRow]:
        """A model request arrived: what it tells about the turn before."""
        lane = place.lane
        rows = self._settled()
        for result in view.results:
            rows += self._answered(row, lane, result)
        rows += self._changes(row, view, place)
        rows += self._length_continue(row, lane)
        return rows

    def on_sent(self, row: RequestRow, lane: Lane) -> list[TraceRow]:
        """Notes that this request adds to what is sent on."""
        return [
            line
            for note in row.notes
            if note.first
            for line in self._emit(lane, note.turn, row.t_mono_s, row.exchange, "injection", **_note_fields(note))
        ]

    def on_response(
        self, row: ResponseRow, reply: ReplyView | None, place: Place | None, request: RequestRow
    ) -> list[TraceRow]:
        """A response was handed on: a turn with its pending calls, or an error."""
        if place is None or reply is None or not row.complete:
            return self._error(row, place, request)
        number = self.book.complete(place.lane, place.ordinal, reply)
        rows = self._emit(place.lane, number, row.t_mono_s, row.exchange, "turn", **_turn_fields(row, reply))
        if reply.cut_by_length:
            self._lengths[place.lane.id] = _output(row.usage)
        for ordinal, call in enumerate(reply.calls):
            rows += self._started(row, place.lane, number, ordinal, call)
        return rows

    def on_close(self, row: CloseRow) -> list[TraceRow]:
        """The record ends: calls that were never answered, and how the harness ended."""
        self.book.end()
        rows = self._settled()
        if self._open:
            named = ("call_id", "tool_name", "called_in")
            calls = [{name: made.fields[name] for name in named} for made in self._open.values()]
            rows.append(self._row(None, None, row.t_mono_s, None, "turn_aborted", pending_calls=calls))
        rows.append(
            self._row(
                None, None, row.t_mono_s, None, "session_end", finish_reason=row.finish_reason, turns=self.book.turns
            )
        )
        return rows

    def _settled(self) -> list[TraceRow]:
        if self.book.main is None or not self._held:
            return []
        held, self._held = self._held, []
        return [self._named(item) for item in held]

    def _emit(
        self, lane: Lane, number: int | None, t_mono_s: float, exchange: int, event: str, **fields: Any
    ) -> list[TraceRow]:
        item = _Held(lane, number, {"event": event, "t_mono_s": t_mono_s, "wire": exchange, **fields})
        if self.book.main is None and self.book.may_be_main(lane):
            self._held.append(item)
            return []
        return [*self._settled(), self._named(item)]

    def _named(self, item: _Held) -> TraceRow:
        is_main = item.lane is self.book.main
        fields = dict(item.fields)
        if fields["event"] == "turn":
            fields["role"] = "main" if is_main else "side"
        return self._row(
            item.number if is_main else None,
            "main" if is_main else item.lane.id,
            fields.pop("t_mono_s"),
            fields.pop("wire"),
            fields.pop("event"),
            **fields,
        )

    def _row(
        self, turn: int | None, lane: str | None, t_mono_s: float, wire: int | None, event: str, **fields: Any
    ) -> TraceRow:
        self._seq += 1
        envelope = {
            "v": TRACE_VERSION,
            "seq": self._seq,
            "event": event,
            "segment": self._segment,
            "turn": turn,
            "lane": lane,
        }
        return {**fields, **envelope, "t_mono_s": t_mono_s, "wire": wire}

    def _started(self, row: ResponseRow, lane: Lane, number: int, ordinal: int, call: ToolCall) -> list[TraceRow]:
        if len(self._open) < _MAX_OPEN:
            key = call.id if call.id is not None else f"#{row.exchange}.{ordinal}"
            self._open[lane.id, key] = _OpenCall(lane, number, call.id is not None, _call_fields(call, ordinal, row))
        fields = {"ordinal": ordinal, "tool_name": _cap(call.name), "call_id": call.id}
        return self._emit(lane, number, row.t_mono_s, row.exchange, "tool_start", **fields)

    def _answered(self, row: RequestRow, lane: Lane, result: ToolResult) -> list[TraceRow]:
        key = self._key_of(lane, result)
        if key is None:
            return []
        made = self._open.pop(key)
        fields = {**made.fields, **_result_fields(result)}
        return self._emit(lane, made.number, row.t_mono_s, row.exchange, "tool_call", **fields)

    def _key_of(self, lane: Lane, result: ToolResult) -> tuple[str, str] | None:
        """The open call that a result answers: by id, else the lane's oldest call without an id."""
        if result.call_id is not None:
            key = (lane.id, result.call_id)
            return key if key in self._open else None
        return next((key for key, made in self._open.items() if key[0] == lane.id and not made.has_id), None)

    def _changes(self, row: RequestRow, view: RequestView, place: Place) -> list[TraceRow]:
        if place.ordinal == 0:
            return []
        rows: list[TraceRow] = []
        lane, last = place.lane, place.lane.completed - 1 if place.lane.completed else None
        if view.model != place.before_model:
            rows += self._emit(lane, last, row.t_mono_s, row.exchange, "model_fallback", **_models(place, view))
        if view.tools != place.before_tools:
            rows += self._emit(lane, last, row.t_mono_s, row.exchange, "tools_activated", **_tools(place, view))
        if len(view.items) < place.before_items:
            rows += self._emit(lane, last, row.t_mono_s, row.exchange, "compaction", **_compaction(place, view))
        return rows

    def _length_continue(self, row: RequestRow, lane: Lane) -> list[TraceRow]:
        output = self._lengths.pop(lane.id, None)
        if output is None:
            self._attempts.pop(lane.id, None)
            return []
        attempt = self._attempts[lane.id] = self._attempts.get(lane.id, 0) + 1
        tokens = output if output >= 0 else None
        return self._emit(
            lane,
            lane.completed - 1,
            row.t_mono_s,
            row.exchange,
            "length_continue",
            attempt=attempt,
            completion_tokens=tokens,
        )

    def _error(self, row: ResponseRow, place: Place | None, request: RequestRow) -> list[TraceRow]:
        if request.protocol is None or (row.error is None and (row.status or 0) < 400):
            return []
        error = row.error
        fields = {
            "error_kind": error.kind if error else "http_status",
            "detail": error.detail if error else "",
            "http_status": row.status,
            "origin": row.origin,
            "tries": len(row.tries),
        }
        if place is None:
            return [self._row(None, None, row.t_mono_s, row.exchange, "api_error", **fields)]
        return self._emit(place.lane, place.lane.completed, row.t_mono_s, row.exchange, "api_error", **fields)


def _turn_fields(row: ResponseRow, reply: ReplyView) -> TraceRow:
    usage = row.usage
    prompt, cached = (usage.input, usage.cached) if usage else (None, None)
    ratio = round(cached / prompt, 6) if prompt and cached is not None else None
    return {
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "hit_ratio": ratio,
        "completion_tokens": usage.output if usage else None,
        "reasoning_tokens": usage.reasoning if usage else None,
        "finish": reply.finish,
        "text_chars": len(reply.text),
        "calls": len(reply.calls),
        "model": reply.model,
    }


def _call_fields(call: ToolCall, ordinal: int, row: ResponseRow) -> TraceRow:
    arguments = call.arguments
    return {
        "ordinal": ordinal,
        "tool_name": _cap(call.name),
        "call_id": call.id,
        "arguments": arguments[:ARGUMENTS_CAP],
        "arguments_truncated": len(arguments) > ARGUMENTS_CAP,
        "args_sha256": _digest(arguments),
        "called_in": row.exchange,
    }


def _result_fields(result: ToolResult) -> TraceRow:
    return {
        "result_sha256": result.digest,
        "output_sha256": _digest(result.text),
        "output_chars": len(result.text),
        "result_summary": result.text[:SUMMARY_CAP],
        "output_truncated": len(result.text) > SUMMARY_CAP,
        "is_error": result.is_error,
        "exit_status": result.exit_status,
    }


def _note_fields(note: Note) -> TraceRow:
    return {"trigger": "controller_note", "note_id": note.id, "note_sha256": note.digest, "chars": note.chars}


def _models(place: Place, view: RequestView) -> TraceRow:
    return {"source_model": place.before_model, "target_model": view.model, "reason": None}


def _tools(place: Place, view: RequestView) -> TraceRow:
    before = set(place.before_tools)
    return {
        "requested": None,
        "new": [name for name in view.tools if name not in before],
        "already_active": [name for name in view.tools if name in before],
        "final": list(view.tools),
    }


def _compaction(place: Place, view: RequestView) -> TraceRow:
    return {
        "method": "observed",
        "role": None,
        "hook": None,
        "hook_outcome": None,
        "items_before": place.before_items,
        "items_after": len(view.items),
    }


def _output(usage: Usage | None) -> int:
    return usage.output if usage and usage.output is not None else -1


def _digest(text: str) -> str:
    return digest_bytes(text.encode("utf-8", "surrogatepass"))


def _cap(name: str) -> str:
    return name[:_NAME_CAP]


def encode_trace(rows: Iterable[TraceRow]) -> bytes:
    """The lines of several rows."""
    return b"".join(map(encode_trace_row, rows))
