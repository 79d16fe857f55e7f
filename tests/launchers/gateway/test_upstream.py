"""A provider over HTTP: bytes passed on as they are, the key added on the host only, and every fault told for what it
is."""

from __future__ import annotations

import http.client
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from cells.recording.secrets import find_secrets
from launchers.gateway.providers.upstream import retry_after, shown_url

ASK = [{"role": "user", "content": "hello"}]
REPLY = {
    "id": "x",
    "model": "m1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}


def event(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


STREAM = [
    event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "h"}}]}),
    event({"choices": [{"index": 0, "delta": {"content": "i"}, "finish_reason": "stop"}]}),
    event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}),
    b"data: [DONE]\n\n",
]


def test_request_and_reply_pass_byte_for_byte(bench: Any, upstream: Any) -> None:
    reply = json.dumps(REPLY, indent=3).encode() + b"\n"
    server = upstream(lambda out: out.json(reply))
    cell = bench.live(server)
    body = b'{ "model":"m1",\n "x-unknown": 1e2, "messages":[{"role":"user","content":"h\\u00e9"}] }'
    got = cell.ask("POST", "/v1/chat/completions?a=b%20c", body)
    assert (got.status, got.body) == (200, reply)
    [(head, sent)] = server.seen
    assert sent == body
    assert head.startswith(b"POST /v1/chat/completions?a=b%20c HTTP/1.1\r\n")
    cell.session.close()
    assert cell.body(cell.requests()[0]) == body
    assert cell.body(cell.responses()[0]) == reply
    cell.assert_derived_alike()


def test_a_stream_passes_byte_for_byte(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.stream(STREAM))
    cell = bench.live(server)
    got = cell.chat(ASK, stream=True)
    assert (got.status, got.body) == (200, b"".join(STREAM))
    totals = cell.session.close()
    assert (totals.turns, totals.input_tokens, totals.failure) == (1, 3, None)
    [row] = cell.responses()
    assert (cell.body(row), row.streamed, row.complete) == (b"".join(STREAM), True, True)
    cell.assert_derived_alike()


def test_the_key_is_added_here_and_stands_nowhere_else(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.json(REPLY))
    cell = bench.live(server)
    cell.ask("POST", "/v1/chat/completions", {"model": "m1", "messages": ASK}, {"authorization": "Bearer unused"})
    cell.session.close()
    [(head, _)] = server.seen
    assert f"authorization: bearer {bench.key}".encode() in head.lower()
    assert b"unused" not in head
    written = [path for path in cell.root.rglob("*") if path.is_file()] + [bench.gateway.run_dir / "gateway.log"]
    for path in written:
        assert find_secrets(path.read_bytes(), {"PLANTED_KEY": bench.key}) == [], path
        assert b"unused" not in path.read_bytes()


def test_the_messages_protocol_has_its_own_key_header_and_version(bench: Any, upstream: Any) -> None:
    reply = {"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}
    server = upstream(lambda out: out.json(reply))
    cell = bench.live(server, {"provider": "anthropic", "base_url": server.url.removesuffix("/v1")})
    ask = {"model": "m1", "max_tokens": 5, "messages": ASK}
    assert cell.ask("POST", "/v1/messages?beta=true", ask, {"anthropic-beta": "tools-1"}).status == 200
    assert cell.chat(ASK).json()["error"]["code"] == "wrong_protocol"
    cell.session.close()
    [(head, _)] = server.seen
    assert head.startswith(b"POST /v1/messages?beta=true HTTP/1.1\r\n")
    for line in (f"x-api-key: {bench.key}", "anthropic-version: 2023-06-01", "anthropic-beta: tools-1"):
        assert line.encode() in head.lower()


def test_counting_tokens_is_passed_on_and_is_no_model_call(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.json({"input_tokens": 12}))
    cell = bench.live(server, {"provider": "anthropic"})
    assert cell.ask("POST", "/v1/messages/count_tokens", {"model": "m1", "messages": ASK}).json() == {
        "input_tokens": 12
    }
    totals = cell.session.close()
    assert (totals.requests, totals.turns, totals.exchanges) == (0, 0, 1)
    cell.assert_derived_alike()


def test_a_reply_that_holds_the_key_is_not_handed_on(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.json({"error": {"message": f"bad key {bench.key}"}}, "401 Unauthorized"))
    cell = bench.live(server)
    got = cell.chat(ASK)
    assert (got.status, got.json()["error"]["code"]) == (502, "secret_in_reply")
    cell.session.close()
    for path in cell.root.rglob("*.*"):
        assert path.is_dir() or bench.key.encode() not in path.read_bytes()


def test_a_stream_that_holds_the_key_in_two_parts_is_broken_off(bench: Any, upstream: Any) -> None:
    half = len(bench.key) // 2
    parts = [STREAM[0], b": " + bench.key[:half].encode(), bench.key[half:].encode() + b"\n\n", *STREAM[1:]]
    server = upstream(lambda out: out.stream(parts))
    cell = bench.live(server)
    try:
        got = cell.chat(ASK, stream=True).body
    except http.client.IncompleteRead as broken:
        got = broken.partial
    assert bench.key.encode()[half:] not in got
    cell.session.close()
    assert cell.responses()[0].error.kind == "secret_in_reply"
    assert bench.key not in (cell.root / "live/wire.jsonl").read_text()


def test_a_redirect_is_never_followed(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.json({}, "307 Moved", "location: http://127.0.0.1:1/steal\r\n"))
    cell = bench.live(server)
    got = cell.chat(ASK)
    assert (got.status, got.json()["error"]["code"]) == (502, "redirect")
    cell.session.close()
    assert len(server.seen) == 1
    [row] = cell.responses()
    assert (row.error.kind, row.tries[0].error) == ("redirect", "redirect")


FAITHFUL = [
    ("400 Bad Request", b'{"error":{"message":"no","type":"invalid_request_error"}}', None),
    ("500 Oops", b"<html>it broke</html>", "provider_error"),
    ("429 Slow Down", b"", "provider_error"),
    ("404 Not Found", b"{}", "provider_refused"),
]


@pytest.mark.parametrize(("status", "body", "failure"), FAITHFUL, ids=[status for status, _, _ in FAITHFUL])
def test_a_providers_error_reaches_the_cell_as_it_is(
    bench: Any, upstream: Any, status: str, body: bytes, failure: str | None
) -> None:
    server = upstream(lambda out: out.json(body, status))
    cell = bench.live(server)
    got = cell.chat(ASK)
    assert (got.status, got.body) == (int(status[:3]), body)
    totals = cell.session.close()
    assert (totals.failure, totals.turns, totals.errors) == (failure, 0, 1)
    assert cell.trace("api_error")[0]["http_status"] == int(status[:3])
    cell.assert_derived_alike()


def test_a_fault_that_the_harness_recovered_from_loses_nothing(bench: Any, upstream: Any) -> None:
    answers: Any = iter([lambda out: out.json({}, "500 Oops"), lambda out: out.json(REPLY)])
    server = upstream(lambda out: next(answers)(out))
    cell = bench.live(server)
    assert cell.chat(ASK).status == 500
    assert cell.session.status().unanswered == "provider_error"
    assert cell.chat(ASK).status == 200
    totals = cell.session.close()
    assert (totals.failure, totals.turns, totals.requests) == (None, 1, 2)


def test_an_html_page_with_status_200_is_no_reply(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.json(b"<html>welcome to the portal</html>"))
    cell = bench.live(server)
    got = cell.chat(ASK)
    assert (got.status, got.json()["error"]["code"]) == (502, "not_a_reply")
    assert cell.session.close().failure == "provider_error"
    [row] = cell.responses()
    assert cell.body(row) == b"<html>welcome to the portal</html>"
    assert row.sent is not None
    cell.assert_derived_alike()


BROKEN = {
    "half an event": [STREAM[0], b'data: {"choi'],
    "invalid UTF-8": [STREAM[0], b"data: \xff\xfe\n\n"],
    "no finish": STREAM[:1],
    "junk": [b"\x00\x01\x02"],
}


@pytest.mark.parametrize("parts", BROKEN.values(), ids=BROKEN.keys())
def test_a_stream_without_its_end_is_passed_on_and_is_no_turn(bench: Any, upstream: Any, parts: list[bytes]) -> None:
    server = upstream(lambda out: out.stream(parts))
    cell = bench.live(server)
    got = cell.chat(ASK, stream=True)
    assert (got.status, got.body) == (200, b"".join(parts))
    totals = cell.session.close()
    assert (totals.turns, totals.failure) == (0, "provider_error")
    [row] = cell.responses()
    assert (row.error.kind, row.complete, cell.body(row)) == ("incomplete_reply", False, b"".join(parts))
    cell.assert_derived_alike()


def test_a_stream_that_breaks_off_is_broken_off_towards_the_cell(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.stream(STREAM[:2], end=False))
    cell = bench.live(server)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        cell.chat(ASK, stream=True)
    totals = cell.session.close()
    assert (totals.turns, totals.cost, totals.failure) == (0, None, "provider_error")
    [row] = cell.responses()
    assert (row.error.kind, cell.body(row)) == ("broken_off", b"".join(STREAM[:2]))
    cell.assert_derived_alike()


def test_a_body_shorter_than_its_content_length_is_told(bench: Any, upstream: Any) -> None:
    def short(out: Any) -> None:
        out.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{}")
        out.hang_up()

    cell = bench.live(upstream(short))
    got = cell.chat(ASK)
    assert (got.status, got.json()["error"]["code"]) == (502, "broken_off")
    assert cell.session.close().failure == "provider_error"


def test_what_is_no_http_is_a_bad_reply(bench: Any, upstream: Any) -> None:
    def junk(out: Any) -> None:
        out.raw(b"220 smtp ready\r\n\r\n")
        out.hang_up()

    cell = bench.live(upstream(junk))
    assert cell.chat(ASK).status == 502
    assert cell.session.close().failure == "provider_error"


def test_a_silent_provider_is_a_time_out(bench: Any, upstream: Any) -> None:
    import threading

    never = threading.Event()
    cell = bench.live(upstream(lambda out: never.wait(30)), {"timeout_s": 0.2})
    got = cell.chat(ASK)
    never.set()
    assert (got.status, got.json()["error"]["code"]) == (504, "timeout")
    assert cell.session.close().failure == "provider_error"


def test_a_provider_that_cannot_be_reached_loses_the_cell(bench: Any) -> None:
    model = {"name": "live", "provider": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "m1", "max_retries": 1}
    cell = bench.cell(model)
    got = cell.chat(ASK)
    assert (got.status, got.json()["error"]["code"]) == (502, "unreachable")
    assert cell.session.status().failure == "endpoint_down"
    totals = cell.session.close()
    assert (totals.failure, totals.retries, totals.input_tokens) == ("endpoint_down", 1, 0)
    assert [attempt.error for attempt in cell.responses()[0].tries] == ["unreachable", "unreachable"]


def test_retries_are_invisible_to_the_cell_and_each_is_on_the_record(bench: Any, upstream: Any) -> None:
    def hang_up(out: Any) -> None:
        out.hang_up()

    answers: Any = iter(
        [
            lambda out: out.json({}, "503 Busy", "retry-after: 0.05\r\n"),
            hang_up,
            lambda out: out.json(REPLY),
        ]
    )
    server = upstream(lambda out: next(answers)(out))
    cell = bench.live(server, {"max_retries": 3})
    assert cell.chat(ASK).json() == REPLY
    totals = cell.session.close()
    assert (totals.retries, totals.turns, totals.requests, totals.failure) == (2, 1, 1, None)
    tries = cell.responses()[0].tries
    assert [(attempt.status, attempt.error) for attempt in tries] == [(503, None), (None, "broken_off"), (200, None)]
    assert all(attempt.wait_s > 0 for attempt in tries[:2])
    assert totals.waiting_s >= sum(attempt.wait_s for attempt in tries)


def test_a_longer_wait_than_is_obeyed_ends_the_tries(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.json({}, "429 Slow", "retry-after: 9000\r\n"))
    cell = bench.live(server, {"max_retries": 3})
    got = cell.chat(ASK)
    assert (got.status, got.headers["retry-after"]) == (429, "9000")
    assert cell.session.close().retries == 0


def test_a_reply_over_the_cap_is_refused(bench: Any, small_bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.json({"x": "y" * 1_500_000}))
    cell = small_bench.live(server)
    got = cell.chat(ASK)
    assert (got.status, got.json()["error"]["code"]) == (502, "reply_too_large")
    cell.session.close()


def test_an_endless_stream_is_broken_off_at_the_cap(small_bench: Any, upstream: Any) -> None:
    def endless(out: Any) -> None:
        out.stream([STREAM[0] * 100] * 1000)

    cell = small_bench.live(upstream(endless))
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        cell.chat(ASK, stream=True)
    cell.session.close()
    assert cell.responses()[0].error.kind == "reply_too_large"


def test_no_usage_is_null_everywhere(bench: Any, upstream: Any) -> None:
    price = {"input_per_mtok": "1", "output_per_mtok": "1"}
    server = upstream(lambda out: out.json({key: part for key, part in REPLY.items() if key != "usage"}))
    cell = bench.live(server, {"price": price})
    cell.chat(ASK)
    totals = cell.session.close()
    assert (totals.turns, totals.input_tokens, totals.output_tokens, totals.cost) == (1, None, None, None)
    assert cell.responses()[0].usage is None
    assert '"cost":null' in (cell.root / "live/usage.jsonl").read_text()


def test_a_probe_tells_of_the_endpoint_without_the_key(bench: Any, upstream: Any) -> None:
    server = upstream(lambda out: out.json({"data": [{"id": "m1", "note": bench.key}]}))
    cell = bench.live(server)
    found = cell.session.probe()
    assert (found["status"], bench.key in str(found), "m1" in found["models"]) == (200, False, True)
    cell.session.close()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("soon", None), ("inf", None), (None, None), ("Mon, 99 Foo", None)],
)
def test_retry_after_as_a_number(value: str | None, seconds: float | None) -> None:
    assert retry_after(value) == seconds


def test_retry_after_as_a_date() -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    assert 30 < (retry_after(moment) or 0) <= 40
    assert retry_after(format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)) == 0.0


def test_a_shown_url_has_no_user_and_no_query() -> None:
    assert shown_url("https://user:pass@[::1]:8/v1?key=k#f") == "https://[::1]:8/v1"
