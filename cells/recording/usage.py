"""Usage: live/usage.jsonl, one row a complete response and one `session_usage` row a segment; prices; and the report
over segments.

Rules (saved-files, `session_usage`):
1. A field is null when any complete response of the segment lacks the provider's count; null is never 0, and nothing is
   estimated.
2. Amounts are exact decimals, written as strings. A cost is null when any reply that was paid for has none.
3. A report counts one row a segment; equal duplicates count once, conflicting ones fail. Amounts add up only in one
   currency;
   quota is a snapshot, so the newest one stands, if every segment has one of the same unit and scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from cells.design.study_model import Price
from cells.errors import EvidenceError
from cells.recording.wire import ResponseRow, Try, Usage

_PER_MTOK = Decimal(1_000_000)
Count = Annotated[int, Field(ge=0, strict=True)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _exact(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("expected an exact decimal as a string or an integer")
    try:
        number = Decimal(value)
    except ArithmeticError as error:
        raise ValueError(f"expected an exact decimal, found {value!r}") from error
    if not number.is_finite():
        raise ValueError(f"expected a finite decimal, found {value!r}")
    return str(value)


class Cost(_Record):
    """An exact amount of money."""

    amount: str
    currency: str

    _decimal = field_validator("amount", mode="before")(_exact)


class Quota(_Record):
    """What is left of a provider's quota: exact decimals, their unit and scope."""

    remaining: str
    limit: str
    unit: str
    scope: str

    _decimal = field_validator("remaining", "limit", mode="before")(_exact)


class ResponseUsage(_Record):
    """One complete response."""

    v: Literal[1] = 1
    event: Literal["response_usage"] = "response_usage"
    segment: int
    exchange: int
    lane: str
    usage: Usage | None
    cost: Cost | None


class SessionUsage(_Record):
    """One segment: the seed's `session_usage`."""

    v: Literal[1] = 1
    event: Literal["session_usage"] = "session_usage"
    segment: int
    scope: Literal["all_model_responses"] = "all_model_responses"
    responses: Count
    input_tokens: Count | None
    output_tokens: Count | None
    cached_tokens: Count | None
    cost: Cost | None
    quota: Quota | None = None


def cost_of(usage: Usage | None, price: Price | None) -> Decimal | None:
    """The exact price of a reply; None without a price or its counts, when parts exceed the whole, or when a cached
    price needs a count that is not told.

    A kind of token without a price of its own costs what input costs; a protocol that knows no cache writes charges
    none.
    """
    if usage is None or price is None or usage.input is None or usage.output is None:
        return None
    if usage.cached is None and price.cached_per_mtok is not None:
        return None
    cached, written = usage.cached or 0, usage.cache_write or 0
    if cached + written > usage.input:
        return None
    parts = (
        ((usage.input - cached - written), price.input_per_mtok),
        (cached, price.input_per_mtok if price.cached_per_mtok is None else price.cached_per_mtok),
        (written, price.input_per_mtok if price.cache_write_per_mtok is None else price.cache_write_per_mtok),
        (usage.output, price.output_per_mtok),
    )
    return sum((Decimal(tokens) * rate for tokens, rate in parts), Decimal(0)) / _PER_MTOK


_NOT_SENT = frozenset(("unreachable", "endpoint_down", "script_exhausted", "script_mismatch"))


def was_paid(tries: Sequence[Try]) -> bool:
    """Whether a reply may have to be paid for: the provider began one, or was asked and nothing is known of its end."""
    last = tries[-1] if tries else None
    if last is None:
        return False
    if last.status is not None:
        return last.status < 400
    return last.error not in _NOT_SENT


def plain(amount: Decimal) -> str:
    """The digits of an exact amount, without an exponent and without trailing zeros."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass
class Sum:
    """A sum that is unknown as soon as one part is."""

    value: int | None = 0

    def add(self, part: int | None) -> None:
        self.value = None if self.value is None or part is None else self.value + part


@dataclass
class UsageDeriver:
    """Turns responses into usage rows."""

    segment: int = 0
    _responses: int = 0
    _input: Sum = field(default_factory=Sum)
    _output: Sum = field(default_factory=Sum)
    _cached: Sum = field(default_factory=Sum)
    _cost: Decimal | None = Decimal(0)
    _currency: str | None = None

    def on_open(self, segment: int) -> list[ResponseUsage | SessionUsage]:
        """A segment starts: the row of the one before, if there was one."""
        rows = self.on_close() if self.segment else []
        self.segment = segment
        self._responses, self._input, self._output, self._cached = 0, Sum(), Sum(), Sum()
        self._cost, self._currency = Decimal(0), None
        return rows

    def on_response(self, row: ResponseRow, lane: str | None) -> list[ResponseUsage | SessionUsage]:
        """A response: counted when complete; one that was begun and not completed makes the cost unknown unless it told
        its own."""
        if lane is None or not was_paid(row.tries):
            return []
        self._charge(row)
        if not row.complete:
            return []
        usage = row.usage or Usage()
        self._responses += 1
        self._input.add(usage.input)
        self._output.add(usage.output)
        self._cached.add(usage.cached)
        cost = None if row.cost is None else Cost(amount=row.cost, currency=row.currency or "")
        return [ResponseUsage(segment=self.segment, exchange=row.exchange, lane=lane, usage=row.usage, cost=cost)]

    def on_close(self) -> list[ResponseUsage | SessionUsage]:
        """The segment ends."""
        cost = (
            None
            if self._cost is None or self._currency is None
            else Cost(amount=plain(self._cost), currency=self._currency)
        )
        return [
            SessionUsage(
                segment=self.segment,
                responses=self._responses,
                input_tokens=self._input.value,
                output_tokens=self._output.value,
                cached_tokens=self._cached.value,
                cost=cost,
            )
        ]

    def _charge(self, row: ResponseRow) -> None:
        if row.cost is None or self._cost is None:
            self._cost = None
        else:
            self._cost += Decimal(row.cost)
            self._currency = row.currency


def encode_usage(row: ResponseUsage | SessionUsage) -> bytes:
    """The line of a usage row, newline included."""
    return row.model_dump_json().encode() + b"\n"


def report(rows: Iterable[SessionUsage]) -> SessionUsage:
    """All segments as one; its `segment` is the newest. `EvidenceError` for conflicting duplicates or for no row at
    all."""
    segments: dict[int, SessionUsage] = {}
    for row in rows:
        known = segments.setdefault(row.segment, row)
        if known != row:
            raise EvidenceError(f"session_usage: segment {row.segment} has two rows that differ")
    if not segments:
        raise EvidenceError("session_usage: expected one row a segment, found none")
    ordered = [segments[number] for number in sorted(segments)]
    return SessionUsage(
        segment=ordered[-1].segment,
        responses=sum(row.responses for row in ordered),
        input_tokens=_total(row.input_tokens for row in ordered),
        output_tokens=_total(row.output_tokens for row in ordered),
        cached_tokens=_total(row.cached_tokens for row in ordered),
        cost=_cost([row.cost for row in ordered]),
        quota=_quota([row.quota for row in ordered]),
    )


def _total(parts: Iterable[int | None]) -> int | None:
    total = Sum()
    for part in parts:
        total.add(part)
    return total.value


def _cost(parts: list[Cost | None]) -> Cost | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({part.currency for part in known}) != 1:
        return None
    return Cost(amount=plain(sum((Decimal(part.amount) for part in known), Decimal(0))), currency=known[0].currency)


def _quota(parts: list[Quota | None]) -> Quota | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({(part.unit, part.scope) for part in known}) != 1:
        return None
    return known[-1]


def tokens_by_role(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int | None]]:
    """`metrics.tokens_by_role`: each complete response charged once to its role, from the trace's `turn` rows; unknown
    is null."""
    sums: dict[str, dict[str, Sum]] = {}
    for row in rows:
        if row.get("event") == "turn":
            of_role = sums.setdefault(str(row["role"]), {"input": Sum(), "cached": Sum(), "output": Sum()})
            of_role["input"].add(row["prompt_tokens"])
            of_role["cached"].add(row["cached_tokens"])
            of_role["output"].add(row["completion_tokens"])
    return {role: {name: part.value for name, part in parts.items()} for role, parts in sums.items()}
