"""The transcript: live/transcript.log, what was new in each request and what came back, for audit and explicit replay
only.

Form: a block is a header line `=== exchange N LANE input items A-B of C ===` or `=== exchange N LANE output ... ===`,
then one JSON
document a line: a request's settings when they changed in the lane, its new items; a reply's text, calls, finish and
usage.
What a request repeats from the lane's request before is not written again, so a long run grows with what is new. The
bytes sent and
received are in the wire record, which is the authority.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from cells.recording.lanes import Place
from cells.recording.views import ReplyView, RequestView
from cells.recording.wire import RequestRow, ResponseRow

_MAX_ITEMS = 20_000


@dataclass
class _LaneText:
    settings: str = ""
    items: list[str] = field(default_factory=list)


@dataclass
class TranscriptDeriver:
    """Turns wire rows and views into blocks of text."""

    _lanes: dict[str, _LaneText] = field(default_factory=dict)

    def on_request(self, row: RequestRow, view: RequestView, place: Place) -> bytes:
        """The block of a model request."""
        known = self._lanes.setdefault(place.lane.id, _LaneText())
        repeated = _repeated(known, view, place)
        known.items[repeated:] = [view.item_digest(at) for at in range(repeated, min(len(view.items), _MAX_ITEMS))]
        span = f"{repeated + 1}-{len(view.items)} of {len(view.items)}" if repeated < len(view.items) else "none new"
        lines = [f"=== exchange {row.exchange} {place.lane.id} input items {span} ==="]
        settings = view.settings_digest()
        if settings != known.settings:
            known.settings = settings
            lines.append(_line(view.settings))
        lines += [_line(item) for item in view.items[repeated:]]
        lines += [_line({"note": note.id, "digest": note.digest, "turn": note.turn}) for note in row.notes]
        return _block(lines)

    def on_response(self, row: ResponseRow, reply: ReplyView | None, lane: str | None) -> bytes:
        """The block of what came back for a model request; nothing for other exchanges."""
        if lane is None:
            return b""
        state = "complete" if row.complete else "incomplete"
        lines = [f"=== exchange {row.exchange} {lane} output status {row.status} {row.origin} {state} ==="]
        if reply is not None:
            lines.append(_line(_reply(reply, row)))
        if row.error is not None:
            lines.append(_line({"error": row.error.model_dump()}))
        return _block(lines)


def _repeated(known: _LaneText, view: RequestView, place: Place) -> int:
    """How many leading items the lane's request before had, too."""
    if place.continues and len(known.items) == place.before_items:
        return place.before_items
    most = min(len(known.items), len(view.items))
    return next((at for at in range(most) if view.item_digest(at) != known.items[at]), most)


def _reply(reply: ReplyView, row: ResponseRow) -> dict[str, Any]:
    return {
        "text": reply.text,
        "reasoning_chars": reply.reasoning_chars,
        "calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls],
        "finish": reply.finish,
        "model": reply.model,
        "usage": row.usage.model_dump() if row.usage else None,
    }


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _block(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")
