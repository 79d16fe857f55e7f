"""Server-sent events: the events of a whole stream, and whether the stream ended inside one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cells.recording.loose_json import NoJson, parse

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class Event:
    """One event: its name (empty when it has none) and its data lines joined."""

    name: str
    data: bytes

    def document(self) -> dict[str, Any] | None:
        """The JSON object in the data; None for `[DONE]` and anything that is none."""
        if not self.data.startswith(b"{"):
            return None
        try:
            value = parse(self.data)
        except NoJson:
            return None
        return value if isinstance(value, dict) else None


def split_events(stream: bytes) -> tuple[list[Event], bytes]:
    """The whole events and the bytes of an incomplete last one."""
    events: list[Event] = []
    start = 0
    for end in _END.finditer(stream):
        event = _event(stream[start : end.start()])
        if event is not None:
            events.append(event)
        start = end.end()
    return events, stream[start:]


def _event(block: bytes) -> Event | None:
    name, data = "", []
    for line in _LINE.split(block):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode(errors="replace")
    return Event(name, b"\n".join(data)) if data or name else None


def documents(stream: bytes) -> tuple[list[dict[str, Any]], bool]:
    """The JSON objects of a stream, and whether it said `[DONE]`."""
    events, _ = split_events(stream)
    found = [document for event in events if (document := event.document()) is not None]
    return found, any(event.data == b"[DONE]" for event in events)
