"""What the host and the gateway process tell each other: a cell to open, its status, its totals.

Units: seconds, tokens, bytes; money as an exact decimal. Unknown is None.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cells.design.cell import CellLimits
from cells.outcome import Ended

MAX_BODY = 64 << 20
"""Bytes of the largest request or reply."""


@dataclass(frozen=True)
class ListenLimits:
    """What a cell's connections may do: bytes of a body; seconds for a head, for a body, for reading an answer, for
    idling."""

    max_body: int = MAX_BODY
    head_s: float = 30.0
    body_s: float = 120.0
    write_s: float = 120.0
    idle_s: float = 3600.0
    connections: int = 128


MAX_RECORD = 2 << 30
"""Bytes that one cell may put on our disk through its requests."""


@dataclass(frozen=True)
class GatewayCell:
    """A cell to be served.

    `key` is unique in the process; `model` is `ArmContent.model`; `script` is the frozen script of a scripted model;
    `peer_uid` is who owns the socket (None: anybody who can reach it); `started_mono` is the attempt's start on
    time.monotonic(), which one host shares; `provenance` are the run-start fields of `session_start`, free of secrets.
    """

    key: str
    attempt_root: Path
    model: dict[str, Any]
    limits: CellLimits
    input_limit: int | None = None
    script: Path | None = None
    detectors: dict[str, Any] = field(default_factory=dict)
    peer_uid: int | None = None
    started_mono: float | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    max_record: int = MAX_RECORD


@dataclass(frozen=True)
class SessionStatus:
    """What a running cell did so far.

    `limit_hit`: a limit refused a request; the cell is to be ended. `failure`: the cell is lost (infra_lost).
    `context_refused`: the newest request of main was longer than the input limit; the harness may go on.
    `unanswered`: the newest request of main got no reply of the model for a fault of the provider; the harness may go
    on.
    `tokens` and `cost` are what is known so far; `waiting_s` is the time in which the cell waited for the provider.
    """

    turns: int
    requests: int
    exchanges: int
    tokens: int
    cost: Decimal
    waiting_s: float
    queue_s: float
    record_bytes: int
    limit_hit: Ended | None
    limit_detail: str | None
    failure: str | None
    failure_detail: str | None
    stop_requested: bool
    context_refused: bool
    unanswered: str | None


@dataclass(frozen=True)
class SessionTotals:
    """What a closed cell did. `failure` also tells of a last request that the provider left unanswered.

    Token counts and cost are None when any reply that was paid for lacks them.
    """

    turns: int
    requests: int
    exchanges: int
    lanes: int
    input_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost: Decimal | None
    currency: str | None
    waiting_s: float
    queue_s: float
    retries: int
    errors: int
    clients_gone: int
    record_bytes: int
    limit_hit: Ended | None
    failure: str | None
    failure_detail: str | None
    stop_requested: bool
    context_refused: bool

    def as_json(self) -> dict[str, Any]:
        """For SEAL.json: enums as words, money as strings."""
        return dict(TypeAdapter(SessionTotals).dump_python(self, mode="json"))


@dataclass(frozen=True)
class EndpointStatus:
    """One provider endpoint, shared by all cells: `down` since seconds when its breaker is open."""

    name: str
    down: bool
    down_s: float
    in_flight: int
    queued: int
    detail: str | None


CELL: TypeAdapter[GatewayCell] = TypeAdapter(GatewayCell)
STATUS: TypeAdapter[SessionStatus] = TypeAdapter(SessionStatus)
TOTALS: TypeAdapter[SessionTotals] = TypeAdapter(SessionTotals)
ENDPOINTS: TypeAdapter[list[EndpointStatus]] = TypeAdapter(list[EndpointStatus])


def cell_document(cell: GatewayCell) -> dict[str, Any]:
    """The JSON form of a cell for the control socket."""
    return asdict(cell) | {
        "attempt_root": str(cell.attempt_root),
        "script": None if cell.script is None else str(cell.script),
    }
