"""The wire record: rows read as they were written, a torn tail is told, everything else is refused."""

from __future__ import annotations

from typing import Any

import pytest

from cells.errors import EvidenceError
from cells.recording.schemas import SCHEMAS
from cells.recording.wire import encode_row, read_wire


def sample(recording: Any, chat: Any) -> bytes:
    recording.open(model="m", base_url=None)
    first = recording.ask(chat.request(chat.user("héllo"), stream=False))
    recording.reply(first, chat.reply(chat.says("yes")), cost="0.5")
    second = recording.ask(chat.request(chat.user("x" * 5000)))
    recording.fail(second)
    recording.close()
    return b"".join(encode_row(row) for row in recording.rows)


def test_rows_come_back_as_they_were_written(recording: Any, chat: Any) -> None:
    content = sample(recording, chat)
    read = read_wire(content)
    assert list(read.rows) == recording.rows
    assert read.torn_bytes == 0
    assert b"".join(encode_row(row) for row in read.rows) == content


def test_a_tail_torn_at_any_byte_leaves_the_whole_rows_and_is_counted(recording: Any, chat: Any) -> None:
    content = sample(recording, chat)
    for length in range(len(content)):
        read = read_wire(content[:length])
        assert len(read.rows) == content[:length].count(b"\n")
        assert read.torn_bytes == length - (content[:length].rfind(b"\n") + 1)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows[1:], "expected seq 1, found 2"),
        (lambda rows: [*rows[:2], *rows[3:]], "expected seq 3, found 4"),
        (lambda rows: [rows[0], rows[2].replace(b'"seq":3', b'"seq":2')], "without its one request row"),
        (lambda rows: [*rows[:3], rows[2].replace(b'"seq":3', b'"seq":4')], "without its one request row"),
        (lambda rows: [*rows[:2], rows[1].replace(b'"seq":2', b'"seq":3')], "has a second request row"),
        (lambda rows: [rows[0].replace(b'"segment"', b'"segement"')], "segment"),
        (lambda rows: [rows[0].replace(b'"v":1', b'"v":2')], "v: Input should be 1"),
        (lambda rows: [b"{}\n"], "kind"),
        (lambda rows: [b"\xff\n"], "row"),
    ],
)
def test_a_damaged_record_is_refused_with_its_line(recording: Any, chat: Any, change: Any, found: str) -> None:
    rows = sample(recording, chat).splitlines(keepends=True)
    with pytest.raises(EvidenceError, match=r"wire\.jsonl:\d+") as refusal:
        read_wire(b"".join(change(rows)))
    assert found in str(refusal.value)


def test_every_kind_of_row_has_a_schema(recording: Any, chat: Any) -> None:
    sample(recording, chat)
    assert {f"wire.{row.kind}" for row in recording.rows} <= SCHEMAS.keys()
    assert all(model.model_json_schema()["additionalProperties"] is False for model in SCHEMAS.values())
