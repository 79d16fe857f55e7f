"""Usage: null stays null, amounts are exact, conflicting duplicates fail."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cells.design.study_model import Price
from cells.errors import EvidenceError
from cells.recording.usage import Cost, Quota, SessionUsage, cost_of, plain, report, tokens_by_role, was_paid
from cells.recording.wire import Try, Usage

PRICE = Price(
    input_per_mtok=Decimal("0.15"),
    cached_per_mtok=Decimal("0.075"),
    cache_write_per_mtok=Decimal("0.19"),
    output_per_mtok=Decimal("0.60"),
)


def row(segment: int = 1, **fields: Any) -> SessionUsage:
    given = {"responses": 1, "input_tokens": 1, "output_tokens": 1, "cached_tokens": 1, "cost": None, **fields}
    return SessionUsage(segment=segment, **given)


def test_a_price_is_exact_to_the_last_digit() -> None:
    usage = Usage(input=1_000_003, cached=500_000, cache_write=3, output=7)
    assert cost_of(usage, PRICE) == Decimal("0.11250477")
    assert plain(Decimal("0.11250477000")) == "0.11250477"


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(),
        Usage(input=1, cached=0),
        Usage(output=1, cached=0),
        Usage(input=1, output=1),
        Usage(input=5, cached=4, cache_write=2, output=1),
    ],
    ids=["no usage", "no count", "no output", "no input", "no cached count", "parts that exceed the whole"],
)
def test_a_cost_is_unknown_when_a_count_is(usage: Usage | None) -> None:
    assert cost_of(usage, PRICE) is None


def test_without_a_price_nothing_is_known() -> None:
    assert cost_of(Usage(input=1, cached=0, output=1), None) is None


@given(*(st.integers(0, 10**9) for _ in range(4)))
def test_a_price_grows_with_its_parts(plain_tokens: int, cached: int, written: int, output: int) -> None:
    usage = Usage(input=plain_tokens + cached + written, cached=cached, cache_write=written, output=output)
    amount = cost_of(usage, PRICE)
    assert amount is not None
    million = Decimal(1_000_000)
    assert amount * million == (
        plain_tokens * Decimal("0.15")
        + cached * Decimal("0.075")
        + written * Decimal("0.19")
        + output * Decimal("0.60")
    )
    assert Decimal(plain(amount)) == amount


def test_a_field_is_null_when_any_complete_reply_lacks_it(recording: Any, chat: Any) -> None:
    recording.open()
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    recording.reply(recording.ask(chat.request(chat.user("a"))), chat.reply(chat.says("x"), usage=usage), cost="0.1")
    recording.reply(recording.ask(chat.request(chat.user("b"))), chat.reply(chat.says("x"), usage=usage), cost="0.2")
    recording.open(2)
    recording.reply(recording.ask(chat.request(chat.user("c"))), chat.reply(chat.says("x"), usage={"prompt_tokens": 5}))
    recording.close()
    rows = [json.loads(line) for line in recording.derived().usage.splitlines()]
    one, two = [found for found in rows if found["event"] == "session_usage"]
    assert (one["input_tokens"], one["output_tokens"], one["cached_tokens"]) == (10, 4, 2)
    assert one["cost"] == {"amount": "0.3", "currency": "USD"}
    assert (two["input_tokens"], two["output_tokens"], two["cached_tokens"], two["cost"]) == (5, None, None, None)
    assert [found["exchange"] for found in rows if found["event"] == "response_usage"] == [1, 2, 3]


def test_a_reply_that_broke_off_makes_the_cost_unknown_and_is_no_response(recording: Any, chat: Any) -> None:
    recording.open()
    recording.reply(recording.ask(chat.request(chat.user("a"))), chat.reply(chat.says("x")), complete=False)
    recording.close()
    [found] = [json.loads(line) for line in recording.derived().usage.splitlines()]
    assert (found["responses"], found["input_tokens"], found["cost"]) == (0, 0, None)


@pytest.mark.parametrize(
    ("status", "error", "paid"),
    [
        (200, None, True),
        (429, None, False),
        (None, "timeout", True),
        (None, "unreachable", False),
        (None, "cancelled", True),
    ],
)
def test_what_may_have_to_be_paid_for(status: int | None, error: str | None, paid: bool) -> None:
    assert was_paid([Try(at="", status=status, error=error, wait_s=0)]) is paid


def test_nothing_was_asked_nothing_is_paid() -> None:
    assert not was_paid([])


def test_a_report_adds_segments_and_counts_equal_rows_once() -> None:
    cost = Cost(amount="0.10", currency="USD")
    found = report([row(1, cost=cost), row(1, cost=cost), row(2, input_tokens=None, cost=cost)])
    assert (found.responses, found.input_tokens, found.output_tokens) == (2, None, 2)
    assert found.cost == Cost(amount="0.2", currency="USD")


def test_conflicting_duplicates_fail() -> None:
    with pytest.raises(EvidenceError, match="segment 1 has two rows that differ"):
        report([row(1), row(1, input_tokens=2)])
    with pytest.raises(EvidenceError, match="found none"):
        report([])


def test_costs_of_different_currencies_do_not_add_up() -> None:
    parts = [row(1, cost=Cost(amount="1", currency="USD")), row(2, cost=Cost(amount="1", currency="EUR"))]
    assert report(parts).cost is None


def test_quota_is_a_snapshot_and_not_a_sum() -> None:
    def quota(remaining: str, unit: str = "requests") -> Quota:
        return Quota(remaining=remaining, limit="100", unit=unit, scope="day")

    assert report([row(1, quota=quota("90")), row(2, quota=quota("80"))]).quota == quota("80")
    assert report([row(1, quota=quota("90")), row(2)]).quota is None
    assert report([row(1, quota=quota("90")), row(2, quota=quota("80", "tokens"))]).quota is None


@pytest.mark.parametrize("amount", [0.1, "NaN", "Infinity", "ten", True, None])
def test_an_amount_that_is_no_exact_decimal_is_refused(amount: Any) -> None:
    with pytest.raises(ValidationError):
        Cost(amount=amount, currency="USD")


def test_an_amount_may_be_an_integer() -> None:
    assert Cost.model_validate({"amount": 3, "currency": "USD"}).amount == "3"


def test_each_reply_is_charged_once_to_its_role() -> None:
    rows: list[dict[str, Any]] = [
        {"event": "turn", "role": "main", "prompt_tokens": 5, "cached_tokens": None, "completion_tokens": 1},
        {"event": "turn", "role": "side", "prompt_tokens": 7, "cached_tokens": 2, "completion_tokens": 1},
        {"event": "turn", "role": "main", "prompt_tokens": 6, "cached_tokens": 3, "completion_tokens": 1},
        {"event": "tool_call"},
    ]
    assert tokens_by_role(rows) == {
        "main": {"input": 11, "cached": None, "output": 2},
        "side": {"input": 7, "cached": 2, "output": 1},
    }
