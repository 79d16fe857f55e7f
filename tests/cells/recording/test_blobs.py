"""Bodies in the pack come back byte for byte, grow with what is new, and show any altered byte."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.errors import EvidenceError
from cells.recording.blobs import INLINE, MAX_CHUNK, PackWriter, cut, prepare, read_pack


def packed(*bodies: bytes) -> tuple[bytes, list[Any]]:
    pack = bytearray()
    writer = PackWriter(pack.extend)
    references = [writer.put(body) for body in bodies]
    assert writer.size == len(pack)
    return bytes(pack), references


def growing(turns: int) -> list[bytes]:
    messages: list[Any] = [{"role": "system", "content": "x" * 3000}]
    bodies = []
    for turn in range(turns):
        messages += [{"role": "assistant", "content": f"step {turn}"}, {"role": "tool", "content": f"{turn}," * 300}]
        bodies.append(json.dumps({"model": "m", "messages": messages, "tools": [{"name": "t" * 900}]}).encode())
    return bodies


pieces = st.lists(st.sampled_from([b"}", b",", b"]", b" ", b"x" * 200, b'{"a":1},', b"\xff\x00"]), max_size=60)


@given(st.lists(pieces.map(b"".join), max_size=6))
def test_bodies_come_back_byte_for_byte(bodies: list[bytes]) -> None:
    pack, references = packed(*bodies)
    read = read_pack(pack)
    assert [read.body(reference) for reference in references] == bodies
    assert read.torn_bytes == 0


@given(st.binary(max_size=3 * MAX_CHUNK))
def test_chunks_join_to_the_body_and_none_is_too_long(body: bytes) -> None:
    chunks = list(cut(body))
    assert b"".join(chunks) == body
    assert all(0 < len(chunk) <= MAX_CHUNK for chunk in chunks)


@given(st.lists(pieces.map(b"".join), max_size=6))
def test_a_prepared_body_is_stored_as_any(bodies: list[bytes]) -> None:
    pack = bytearray()
    writer = PackWriter(pack.extend)
    references = [writer.put_prepared(prepare(body)) for body in bodies]
    assert (bytes(pack), references) == packed(*bodies)


def test_a_body_of_many_levels_comes_back() -> None:
    body = b"".join(
        b'{"n":%d,"t":"%s"},' % (n, hashlib.sha256(b"%d" % n).hexdigest().encode() * 5) for n in range(9000)
    )
    pack, [reference] = packed(body)
    assert read_pack(pack).body(reference) == body


def test_a_growing_prompt_is_stored_once() -> None:
    bodies = growing(200)
    pack, references = packed(*bodies)
    assert len(pack) < 2 * len(bodies[-1])
    assert read_pack(pack).body(references[100]) == bodies[100]


def test_an_equal_body_takes_no_further_byte() -> None:
    [body] = growing(1)
    assert packed(body, body)[0] == packed(body)[0]


def test_a_small_body_stands_in_the_row_whatever_its_bytes() -> None:
    pack, [text, junk] = packed(b"{}", b"\xff\xfe")
    assert (pack, text.inline, junk.base64) == (b"", "{}", True)
    assert read_pack(pack).body(junk) == b"\xff\xfe"


def test_a_body_that_looks_like_a_node_is_still_a_body() -> None:
    pack, _ = packed(*growing(40))
    [node] = [pack[one.start : one.end] for one in read_pack(pack).records.values() if one.kind == b"node"][:1]
    imitation = node + b"." * INLINE
    again, [*_, reference, exact] = packed(*growing(40), imitation, node * 40)
    assert read_pack(again).body(reference) == imitation
    assert read_pack(again).body(exact) == node * 40


@given(st.data())
def test_any_altered_byte_is_noticed(data: Any) -> None:
    [*_, body] = growing(12)
    pack, [reference] = packed(body)
    at = data.draw(st.integers(0, len(pack) - 1))
    altered = bytearray(pack)
    altered[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(EvidenceError):
        read_pack(bytes(altered)).body(reference)


@given(st.data())
def test_a_torn_tail_is_left_out_and_counted(data: Any) -> None:
    bodies = growing(6)
    pack, references = packed(*bodies)
    length = data.draw(st.integers(0, len(pack)))
    read = read_pack(pack[:length])
    assert all(one.end + 1 <= length for one in read.records.values())
    whole = max((one.end + 1 for one in read.records.values()), default=0)
    assert read.torn_bytes == length - whole
    if length < len(pack):
        with pytest.raises(EvidenceError):
            read.body(references[-1])


def test_what_is_no_pack_is_refused() -> None:
    with pytest.raises(EvidenceError, match="no record at byte 0"):
        read_pack(b"something else\n" * 20)


def test_a_record_that_unpacks_to_more_than_it_says_is_refused() -> None:
    import zstandard

    bomb = zstandard.ZstdCompressor().compress(bytes(50_000_000))
    digest = hashlib.sha256(bytes(10)).hexdigest()
    pack = f"chunk {digest} zstd 10 {len(bomb)}\n".encode() + bomb + b"\n"
    reference = packed(b"y" * 2000)[1][0].model_copy(update={"ref": f"sha256:{digest}"})
    with pytest.raises(EvidenceError):
        read_pack(pack).body(reference)
