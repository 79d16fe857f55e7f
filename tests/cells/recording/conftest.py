"""A recording in memory: exchanges become wire rows and bodies as the gateway makes them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from cells.recording.blobs import PackWriter, read_pack
from cells.recording.derive import Derived, derive
from cells.recording.lanes import LaneBook
from cells.recording.protocols import read_reply, read_request
from cells.recording.wire import (
    CloseRow,
    ErrorNote,
    Note,
    OpenRow,
    Peer,
    Protocol,
    RequestRow,
    ResponseRow,
    Timing,
    Try,
    WireRow,
)

_AT = "2026-11-30T00:00:00.000000Z"


@dataclass
class Recording:
    """Rows and bodies of one attempt. `ask` gives the exchange's number, `reply` and `fail` answer it."""

    rows: list[WireRow] = field(default_factory=list)
    pack: bytearray = field(default_factory=bytearray)
    book: LaneBook = field(default_factory=LaneBook)
    _writer: PackWriter | None = None
    _exchanges: int = 0
    _asked: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._writer = PackWriter(self.pack.extend)

    def _stamp(self) -> dict[str, Any]:
        number = len(self.rows) + 1
        return {"seq": number, "t_mono_s": number / 8, "at": _AT}

    def store(self, body: bytes) -> Any:
        assert self._writer is not None
        return self._writer.put(body)

    def open(self, segment: int = 1, **provenance: Any) -> None:
        self.rows.append(OpenRow(**self._stamp(), segment=segment, provenance=provenance))

    def ask(self, document: Any, protocol: Protocol = "openai-chat", notes: tuple[Note, ...] = ()) -> int:
        body = json.dumps(document).encode()
        place = self.book.place(read_request(protocol, body))
        self._exchanges += 1
        row = RequestRow(
            **self._stamp(),
            exchange=self._exchanges,
            lane=place.lane.id,
            ordinal=place.ordinal,
            main=None if self.book.main is None else place.lane is self.book.main,
            protocol=protocol,
            method="POST",
            path="/v1",
            headers={},
            body=self.store(body),
            notes=notes,
            peer=Peer(uid=1, pid=2),
        )
        self.rows.append(row)
        self._asked[self._exchanges] = (row, place)
        return self._exchanges

    def reply(self, exchange: int, document: Any, *, complete: bool = True, cost: str | None = None) -> None:
        body = json.dumps(document).encode()
        request, place = self._asked[exchange]
        said = read_reply(request.protocol, body, streamed=False)
        if complete:
            self.book.complete(place.lane, place.ordinal, said)
        self.rows.append(self._response(exchange, 200, body, complete=complete, usage=said.usage, cost=cost))

    def fail(self, exchange: int, status: int = 500, kind: str = "http_status") -> None:
        self.rows.append(self._response(exchange, status, b"{}", error=ErrorNote(kind=kind, detail="it failed")))

    def close(self, finish_reason: str | None = "completed") -> None:
        self.rows.append(CloseRow(**self._stamp(), finish_reason=finish_reason))

    def _response(self, exchange: int, status: int, body: bytes, **fields: Any) -> ResponseRow:
        given = {"complete": False, "usage": None, "error": None, "cost": None, **fields}
        return ResponseRow(
            **self._stamp(),
            exchange=exchange,
            status=status,
            origin="provider",
            headers={},
            streamed=False,
            body=self.store(body),
            tries=(Try(at=_AT, status=status, error=None, wait_s=0.0),),
            timing=Timing(queue_s=0, first_byte_s=0, total_s=0, provider_s=0),
            client_gone=False,
            currency="USD" if given["cost"] else None,
            **given,
        )

    def derived(self) -> Derived:
        return derive(tuple(self.rows), read_pack(bytes(self.pack)).body)

    def trace(self, event: str | None = None) -> list[dict[str, Any]]:
        return [row for row in self.derived().rows if event is None or row["event"] == event]


class Chat:
    """Documents of chat completions, short to write."""

    @staticmethod
    def request(*messages: Any, tools: tuple[str, ...] = ("bash",), model: str = "m", **fields: Any) -> dict[str, Any]:
        named = [{"type": "function", "function": {"name": name}} for name in tools]
        return {"model": model, "messages": list(messages), "tools": named, **fields}

    @staticmethod
    def user(text: str) -> dict[str, Any]:
        return {"role": "user", "content": text}

    @staticmethod
    def system(text: str) -> dict[str, Any]:
        return {"role": "system", "content": text}

    @staticmethod
    def result(call_id: str, text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call_id, "content": text}

    @staticmethod
    def says(text: str, *calls: tuple[str | None, str, str]) -> dict[str, Any]:
        made = [{"id": key, "type": "function", "function": {"name": n, "arguments": a}} for key, n, a in calls]
        return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}

    @staticmethod
    def reply(message: dict[str, Any], finish: str = "stop", usage: dict[str, Any] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}
        return found if usage is None else {**found, "usage": usage}


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture(scope="session")
def new_recording() -> type[Recording]:
    return Recording


@pytest.fixture(scope="session")
def chat() -> type[Chat]:
    return Chat
