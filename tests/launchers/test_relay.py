"""The harness's output on its way to the launcher: the beginning, the end, and how much is missing between them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.incell.agent.relay import TAIL, Relay


def relayed(pieces: list[bytes], cap: int) -> tuple[list[tuple[dict[str, Any], bytes]], dict[str, int]]:
    """What is sent for what a program wrote, and the account of it."""
    sent: list[tuple[dict[str, Any], bytes]] = []
    read, write = os.pipe()
    relay = Relay("stdout", read, cap, lambda header, body: sent.append((header, body)))
    for piece in pieces:
        os.write(write, piece)
        relay.read()
    os.close(write)
    while relay.open:
        relay.read()
    return sent, relay.finish()


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=20), st.integers(0, 600))
def test_nothing_is_lost_below_cap_and_tail(pieces: list[bytes], cap: int) -> None:
    sent, account = relayed(pieces, cap)
    whole = b"".join(pieces)
    assert b"".join(body for _, body in sent) == whole
    assert account == {"bytes": len(whole), "dropped": 0}
    assert sum(len(body) for header, body in sent if "end" not in header) == min(cap, len(whole))


def test_of_a_flood_the_beginning_and_the_end_are_sent_and_the_rest_is_counted() -> None:
    piece = bytes(range(256)) * 128
    sent, account = relayed([piece] * 5, cap=10_000)
    whole = piece * 5
    assert b"".join(body for header, body in sent if "end" not in header) == whole[:10_000]
    assert [body for header, body in sent if "end" in header] == [whole[-TAIL:]]
    assert account == {"bytes": len(whole), "dropped": len(whole) - 10_000 - TAIL}


def test_silence_is_no_end(tmp_path: object) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    relay = Relay("stderr", read, 10, lambda header, body: pytest.fail("nothing was said"))
    relay.read()
    assert relay.open
    os.close(write)
    relay.read()
    assert relay.finish() == {"bytes": 0, "dropped": 0}
