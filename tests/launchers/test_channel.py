"""Frames through the engine's attach stream: any cutting, any excess, any silence."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.errors import InfraFailure
from cells.sandbox import ChannelClosed, ChannelTimeout, Frame
from launchers.channel import LINE_CAP, STDERR_CAP, AttachChannel, Demultiplexer, FrameParser

BODIES = st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=300)), max_size=6)


def packed(kind: int, content: bytes) -> bytes:
    """Content as the engine sends it."""
    return struct.pack(">B3xI", kind, len(content)) + content


def frame(name: str, body: bytes = b"") -> bytes:
    """A frame as a program of ours writes it."""
    return json.dumps({"type": name, "size": len(body)}).encode() + b"\n" + body


def everything(parser: FrameParser) -> list[Frame]:
    return list(iter(lambda: parser.next(1 << 20), None))


@pytest.fixture
def ends() -> Iterator[tuple[AttachChannel, socket.socket, list[str]]]:
    """A channel, the engine's end of its socket, and the record of its release."""
    ours, theirs = socket.socketpair()
    released: list[str] = []
    channel = AttachChannel(ours, lambda: released.append("released"))
    yield channel, theirs, released
    channel.close()
    theirs.close()


def soon() -> float:
    return time.monotonic() + 5


@given(BODIES, st.lists(st.integers(1, 40), min_size=1, max_size=20), st.lists(st.integers(1, 60), min_size=1))
def test_frames_come_out_whole_however_engine_and_socket_cut_them(
    bodies: list[tuple[str, bytes]], writes: list[int], reads: list[int]
) -> None:
    written = b"".join(frame(name, body) for name, body in bodies)
    stream, position = b"", 0
    while position < len(written):
        size = writes[position % len(writes)]
        stream += packed(1, written[position : position + size]) + packed(2, b"warning\n")
        position += size
    streams, found, position = Demultiplexer(), [], 0
    parser = FrameParser(streams.stdout)
    while position < len(stream):
        size = reads[position % len(reads)]
        streams.feed(stream[position : position + size])
        found += everything(parser)
        position += size
    assert [(one.type, one.body) for one in found] == bodies
    assert bytes(streams.stderr) == (b"warning\n" * stream.count(b"warning\n"))[-STDERR_CAP:]


def test_of_a_flood_on_stderr_the_end_is_kept() -> None:
    streams = Demultiplexer()
    streams.feed(packed(2, b"x" * (3 * STDERR_CAP)) + packed(2, b"the end"))
    assert len(streams.stderr) == STDERR_CAP and streams.stderr.endswith(b"xthe end")


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"[]",
        b'{"size": 1}',
        b'{"type": 7}',
        b'{"type": "a", "size": -1}',
        b'{"type": "a", "size": 1001}',
        b'{"type": "a", "size": true}',
        b'{"type": "a", "size": "9"}',
        b"\xff\xfe",
        b"{" * 20000,
    ],
)
def test_junk_is_a_bad_frame(line: bytes) -> None:
    with pytest.raises(InfraFailure, match="bad_frame"):
        FrameParser(bytearray(line + b"\n")).next(1000)


def test_a_line_without_an_end_is_a_bad_frame_and_is_not_kept_for_ever() -> None:
    with pytest.raises(InfraFailure, match="bad_frame"):
        FrameParser(bytearray(b'{"type": "' + b"a" * LINE_CAP)).next(1000)


def test_an_unknown_stream_of_the_engine_is_a_bad_frame() -> None:
    with pytest.raises(InfraFailure, match="bad_frame"):
        Demultiplexer().feed(packed(9, b"?"))


def test_a_frame_is_received_and_its_body_may_hold_newlines(
    ends: tuple[AttachChannel, socket.socket, list[str]],
) -> None:
    channel, engine, _ = ends
    engine.sendall(packed(1, frame("one", b"a\nb\n")) + packed(2, b"careful"))
    assert channel.receive(soon(), 10) == Frame({"type": "one", "size": 4}, b"a\nb\n")
    with pytest.raises(ChannelTimeout):
        channel.receive(time.monotonic(), 10)
    assert channel.stderr == b"careful"


def test_a_trickle_of_bytes_does_not_stretch_the_deadline(
    ends: tuple[AttachChannel, socket.socket, list[str]],
) -> None:
    channel, engine, _ = ends
    engine.sendall(packed(1, b'{"type"'))
    with pytest.raises(ChannelTimeout):
        channel.receive(time.monotonic() - 1, 10)
    engine.sendall(packed(1, b': "late"}\n'))
    assert channel.receive(soon(), 10).type == "late"


def test_the_end_of_stdout_is_said_after_the_last_whole_frame(
    ends: tuple[AttachChannel, socket.socket, list[str]],
) -> None:
    channel, engine, _ = ends
    engine.sendall(packed(1, frame("last") + b'{"type": "cut", "size": 100}\nhalf'))
    engine.shutdown(socket.SHUT_RDWR)
    assert channel.receive(soon(), 1000).type == "last"
    with pytest.raises(ChannelClosed):
        channel.receive(soon(), 1000)


def test_a_large_body_goes_through_in_pieces(ends: tuple[AttachChannel, socket.socket, list[str]]) -> None:
    channel, engine, _ = ends
    body = bytes(range(256)) * 8000
    received: list[bytes] = []
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: received.extend(iter(lambda: engine.recv(1 << 16), b"")))
        channel.send({"type": "patch", "size": "not yours to say"}, body)
        channel.close()
        reading.result(10)
    line, _, rest = b"".join(received).partition(b"\n")
    assert json.loads(line) == {"type": "patch", "size": len(body)} and rest == body


def test_who_does_not_read_is_not_waited_for_without_end() -> None:
    ours, theirs = socket.socketpair()
    channel = AttachChannel(ours, lambda: None, send_timeout_s=0.05)
    with pytest.raises(ChannelTimeout, match="does not read"):
        channel.send({"type": "patch"}, b"x" * (1 << 22))
    channel.close()
    theirs.close()


def test_who_is_gone_cannot_be_sent_to(ends: tuple[AttachChannel, socket.socket, list[str]]) -> None:
    channel, engine, _ = ends
    engine.close()
    with pytest.raises(ChannelClosed):
        for _ in range(3):
            channel.send({"type": "hello"})


def test_closing_twice_releases_once(ends: tuple[AttachChannel, socket.socket, list[str]]) -> None:
    channel, _, released = ends
    channel.close()
    channel.close()
    assert released == ["released"]
    with pytest.raises(ChannelClosed):
        channel.receive(soon(), 10)
    with pytest.raises(ChannelClosed):
        channel.send({"type": "hello"})
