"""Mutated requests by the thousand: no crash, no hang, no effect on another cell, and a record that derives alike."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_SEED = 20261130
_VALUES: list[Any] = [
    None,
    True,
    -1,
    2**63,
    1e308,
    "",
    "\ud800",
    "x" * 3000,
    [],
    {},
    [[]],
    [None],
    {"type": "text"},
    "tool",
]


def seeds() -> list[tuple[str, str, Any]]:
    call = {"id": "call_1_0", "type": "function", "function": {"name": "bash", "arguments": '{"a":1}'}}
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
    chat = {
        "model": "m1",
        "stream": False,
        "tools": tools,
        "messages": [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "u"}, {"type": "image_url", "image_url": {"url": "data:"}}],
            },
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1_0", "content": '{"exit_code": 1}'},
        ],
    }
    responses = {
        "model": "m1",
        "stream": True,
        "instructions": "s",
        "tools": [{"type": "function", "name": "bash"}, {"type": "web_search"}],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "call_1_0", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1_0", "output": "x"},
        ],
    }
    use = {"type": "tool_use", "id": "toolu_1_0", "name": "bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1_0", "content": [{"type": "text", "text": "x"}]}
    messages = {
        "model": "m1",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "bash", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ],
    }
    return [
        ("POST", "/v1/chat/completions", chat),
        ("POST", "/v1/chat/completions", {**chat, "stream": True}),
        ("POST", "/v1/responses", responses),
        ("POST", "/v1/messages?beta=true", messages),
        ("POST", "/v1/messages/count_tokens", messages),
        ("GET", "/v1/models", None),
        ("GET", "/props", None),
    ]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(items):
        yield value, key
        yield from places(part)


def changed_document(document: Any, rng: random.Random) -> Any:
    copy = json.loads(json.dumps(document))
    for _ in range(rng.randint(0, 3)):
        found = list(places(copy))
        if found:
            container, key = rng.choice(found)
            if rng.random() < 0.2:
                del container[key]
            else:
                container[key] = rng.choice(_VALUES)
    return copy


def changed_bytes(content: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice([0, 0, 1, 1, 2, 5])):
        at = rng.randrange(len(content) + 1)
        match rng.randrange(5):
            case 0:
                content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
            case 1:
                content = content[:at]
            case 2:
                content = content[:at] + rng.randbytes(rng.randrange(40)) + content[at:]
            case 3:
                content = content[:at] + content[rng.randrange(len(content) + 1) :]
            case 4:
                content = content[:at] + content[: rng.randrange(200)] + content[at:]
    return content


def mutated(rng: random.Random) -> bytes:
    method, path, document = rng.choice(seeds())
    body = b"" if document is None else json.dumps(changed_document(document, rng)).encode()
    if rng.random() < 0.4:
        body = changed_bytes(body, rng)
    length = len(body) if rng.random() < 0.85 else rng.choice([0, 1, len(body) + 9, 10**9, 2**70])
    head = f"{method} {path} HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    whole = head.encode() + body
    return changed_bytes(whole, rng) if rng.random() < 0.3 else whole


def send(path: Path, content: bytes, rng: random.Random) -> None:
    """Send, and read or leave, as a client of bad manners does; never wait longer than the gateway's deadlines
    allow."""
    with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.settimeout(15)
        connection.connect(str(path))
        connection.sendall(content)
        if rng.random() < 0.1:
            return
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            if rng.random() < 0.02:
                return


def campaign(bench: Any, number: int, per_cell: int = 500) -> None:
    rng = random.Random(_SEED)
    script = [
        {"content": "x" * 50, "tool_calls": [{"name": "bash", "arguments": {}}], "repeat": True, "lane": lane}
        for lane in ("main", "side")
    ]
    other = bench.scripted([{"content": "fine", "repeat": True}])
    for first in range(0, number, per_cell):
        cell = bench.scripted(script)
        for _ in range(min(per_cell, number - first)):
            send(cell.socket_path, mutated(rng), rng)
        began = time.monotonic()
        assert other.chat([{"role": "user", "content": "are you there"}]).status == 200
        assert time.monotonic() - began < 5
        totals = cell.session.close()
        assert totals.failure is None
        assert cell.wire().torn_bytes == 0
        assert len(cell.requests()) == len(cell.responses())
        cell.assert_derived_alike()
    totals = other.session.close()
    assert (totals.failure, totals.errors, totals.turns) == (None, 0, totals.requests)


def test_a_few_hundred_mutated_requests(small_bench: Any) -> None:
    campaign(small_bench, 600, 300)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_fifty_thousand_mutated_requests(small_bench: Any) -> None:
    campaign(small_bench, 50_000, 2_000)
