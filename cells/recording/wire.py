"""The wire record: the rows of live/wire.jsonl, their bytes, and the reader that tolerates a torn tail and says so.

Rules (25-formats, "live/wire.jsonl"):
1. An exchange has two rows: the request is durable before a byte is sent on, the response is written after its last
   byte.
2. An `open` row starts each segment of the harness and carries its run-start provenance; one `close` row ends the
   record.
3. `seq` counts rows from 1 without a gap; an exchange has one request and at most one response, in this order.
4. Unknown is null. What a cell or a provider said is data: it is stored, capped, never believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from cells.errors import EvidenceError

WIRE_VERSION: Literal[1] = 1

Protocol = Literal["openai-chat", "openai-responses", "anthropic-messages"]
"""OpenAI chat completions, OpenAI responses, Anthropic messages."""


class Part(BaseModel):
    """A row or a part of one: unknown fields are errors, and it does not change once made."""

    model_config = ConfigDict(extra="forbid", frozen=True)


DETECTOR_LANE = "detector"
"""The lane of what detectors ask the cell's model: no lane of the harness, so no turn."""


class BodyRef(Part):
    """Bytes by digest: inline in the row (text, or base64 when they are not UTF-8), or `ref` into live/wire/
    (`cells.recording.blobs`)."""

    digest: str
    size: int
    inline: str | None = None
    base64: bool = False
    ref: str | None = None


class Peer(Part):
    """Who connected, from the kernel (SO_PEERCRED), as the host sees it."""

    uid: int | None
    pid: int | None


class Note(Part):
    """A controller's note in the sent body: its id, digest, the turn it followed, and whether this request adds it or
    repeats it."""

    id: str
    digest: str
    turn: int
    first: bool
    chars: int


class Usage(Part):
    """Token counts as the provider gave them, in one meaning for all protocols; null is not told.

    `input` is the whole prompt, `cached` and `cache_write` are parts of it; `output` is the whole reply, `reasoning` is
    a part of it.
    """

    input: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None


class Try(Part):
    """One try at the provider: when it started, what came back, how long was waited before the next one (0 for the
    last)."""

    at: str
    status: int | None
    error: str | None
    wait_s: float


class Timing(Part):
    """Seconds: in the endpoint's queue, from forwarding to the first byte, from arrival to the last byte, waiting for
    the provider."""

    queue_s: float
    first_byte_s: float | None
    total_s: float
    provider_s: float


class ErrorNote(Part):
    """What went wrong: a stable word and a text for people."""

    kind: str
    detail: str


class _Stamped(Part):
    v: Literal[1] = WIRE_VERSION
    seq: int
    t_mono_s: float
    """Seconds since the attempt's start on the monotonic clock."""
    at: str
    """UTC, RFC 3339, for people only."""


class OpenRow(_Stamped):
    """The start of a segment (a start or resume of the harness)."""

    kind: Literal["open"] = "open"
    segment: int
    provenance: dict[str, Any]


class RequestRow(_Stamped):
    """What the cell asked. `lane` is null for what is not a model call; `main` is null while it is not decided which
    lane is main."""

    kind: Literal["request"] = "request"
    exchange: int
    lane: str | None
    ordinal: int | None
    main: bool | None
    protocol: Protocol | None
    method: str
    path: str
    headers: dict[str, str]
    body: BodyRef | None
    sent: BodyRef | None = None
    notes: tuple[Note, ...] = ()
    peer: Peer


class ResponseRow(_Stamped):
    """What the cell got. `body` is what `origin` gave; `sent` is what the cell got instead, null when it got just
    that."""

    kind: Literal["response"] = "response"
    exchange: int
    status: int | None
    origin: Literal["provider", "gateway"]
    headers: dict[str, str]
    streamed: bool
    body: BodyRef | None
    sent: BodyRef | None = None
    complete: bool
    """The provider's whole reply reached its own end and was handed on: a completed exchange."""
    usage: Usage | None
    tries: tuple[Try, ...]
    timing: Timing
    error: ErrorNote | None
    client_gone: bool
    cost: str | None
    currency: str | None = None


class CloseRow(_Stamped):
    """The end of the record. `finish_reason` is the launcher's word for how the harness ended, null when it gave
    none."""

    kind: Literal["close"] = "close"
    finish_reason: str | None


WireRow = OpenRow | RequestRow | ResponseRow | CloseRow
_ADAPTER: TypeAdapter[WireRow] = TypeAdapter(Annotated[WireRow, Field(discriminator="kind")])


def encode_row(row: WireRow) -> bytes:
    """The line of a row, newline included. Fields that most rows have no use for stand in the others only."""
    return row.model_dump_json(exclude=_unused(row)).encode() + b"\n"


def _unused(row: WireRow) -> dict[str, Any]:
    if not isinstance(row, (RequestRow, ResponseRow)):
        return {}
    unused: dict[str, Any] = {} if row.body is None else {"body": _unused_of_body(row.body)}
    if row.sent is None:
        unused["sent"] = True
    if isinstance(row, RequestRow) and not row.notes:
        unused["notes"] = True
    if isinstance(row, ResponseRow) and row.cost is None:
        unused["currency"] = True
    return unused


def _unused_of_body(body: BodyRef) -> set[str]:
    names = {"inline"} if body.inline is None else {"ref"}
    return names if body.base64 else names | {"base64"}


@dataclass(frozen=True)
class WireRecord:
    """The whole rows of a record and the number of bytes of a torn last line (0 when the record ends whole)."""

    rows: tuple[WireRow, ...]
    torn_bytes: int


def read_wire(content: bytes) -> WireRecord:
    """The rows of live/wire.jsonl. A last line without its newline is left out and counted; any other fault is an
    `EvidenceError`."""
    whole, newline, tail = content.rpartition(b"\n")
    lines = whole.split(b"\n") if newline else []
    rows = tuple(_parse(line, number) for number, line in enumerate(lines, start=1))
    _check_order(rows)
    return WireRecord(rows, len(tail))


def _parse(line: bytes, number: int) -> WireRow:
    try:
        return _ADAPTER.validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise EvidenceError(f"wire.jsonl:{number}: {where or 'row'}: {first['msg']}") from error


def _check_order(rows: tuple[WireRow, ...]) -> None:
    asked: set[int] = set()
    answered: set[int] = set()
    for number, row in enumerate(rows, start=1):
        if row.seq != number:
            raise EvidenceError(f"wire.jsonl:{number}: expected seq {number}, found {row.seq}")
        if isinstance(row, RequestRow):
            if row.exchange in asked:
                raise EvidenceError(f"wire.jsonl:{number}: exchange {row.exchange} has a second request row")
            asked.add(row.exchange)
        elif isinstance(row, ResponseRow):
            if row.exchange not in asked or row.exchange in answered:
                raise EvidenceError(
                    f"wire.jsonl:{number}: response to exchange {row.exchange} without its one request row"
                )
            answered.add(row.exchange)
