"""The framed channel to a program in a container, over the engine's attach socket.

Rules:
1. The engine's stream is demultiplexed (8-byte headers: kind, three zeros, big-endian length; Engine API, "attach"):
   stdout carries frames, stderr is kept up to a cap, its end is what is kept.
2. A frame is one JSON line with `type` and `size`, then `size` bytes. Junk, a longer line than `LINE_CAP`, or a larger
   body than the reader allows is InfraFailure("bad_frame"): whoever talks here is our own program.
3. Every wait has a deadline; nothing is buffered beyond one frame and one read.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from cells.errors import InfraFailure
from cells.sandbox import ChannelClosed, ChannelTimeout, Frame

LINE_CAP = 64 * 1024
STDERR_CAP = 64 * 1024
SEND_TIMEOUT_S = 60.0
_READ = 256 * 1024
_HEADER = struct.Struct(">B3xI")
_STDOUT, _STDERR = 1, 2
_SILENCE = "nothing whole arrived before the deadline"


class Demultiplexer:
    """Splits the engine's attach stream into stdout bytes and the end of stderr."""

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._pending = bytearray()
        self._kind, self._left = 0, 0

    def feed(self, content: bytes) -> None:
        """Take in what was read from the socket."""
        view, position = memoryview(content), 0
        while position < len(view):
            if self._left == 0:
                position += self._take_header(view[position:])
                continue
            piece = view[position : position + self._left]
            self._deliver(piece)
            self._left -= len(piece)
            position += len(piece)

    def _take_header(self, view: memoryview) -> int:
        taken = min(_HEADER.size - len(self._pending), len(view))
        self._pending += view[:taken]
        if len(self._pending) == _HEADER.size:
            self._kind, self._left = _HEADER.unpack(self._pending)
            self._pending.clear()
            if self._kind not in (0, _STDOUT, _STDERR):
                raise InfraFailure("bad_frame", f"the engine's stream has an unknown kind {self._kind}")
        return taken

    def _deliver(self, piece: memoryview) -> None:
        if self._kind == _STDOUT:
            self.stdout += piece
        elif self._kind == _STDERR:
            self.stderr += piece
            del self.stderr[:-STDERR_CAP]


class FrameParser:
    """Cuts frames off the front of a buffer that another one fills."""

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = buffer
        self._header: dict[str, Any] | None = None
        self._searched = 0

    def next(self, max_body: int) -> Frame | None:
        """The next whole frame, None while it is not whole. InfraFailure("bad_frame") for junk or excess."""
        if self._header is None:
            self._header = self._read_header(max_body)
        if self._header is None:
            return None
        size = int(self._header.get("size", 0))
        if len(self._buffer) < size:
            return None
        frame = Frame(self._header, bytes(memoryview(self._buffer)[:size]))
        del self._buffer[:size]
        self._header = None
        return frame

    def _read_header(self, max_body: int) -> dict[str, Any] | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            if self._searched > LINE_CAP:
                raise InfraFailure("bad_frame", f"header of more than {LINE_CAP} bytes")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return parse_header(line, max_body)


def parse_header(line: bytes, max_body: int) -> dict[str, Any]:
    """The header in a line. InfraFailure("bad_frame") unless it is an object with a type and an allowed size."""
    try:
        header = json.loads(line) if len(line) <= LINE_CAP else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise InfraFailure("bad_frame", f"expected a JSON object with a type, found {line[:120]!r}")
    size = header.get("size", 0)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= max_body:
        raise InfraFailure("bad_frame", f"{header['type']}: body of {size!r} bytes, allowed {max_body}")
    return header


class AttachChannel:
    """`cells.sandbox.Channel` over an attach socket; `release` frees what holds the socket. One reader, one writer."""

    def __init__(
        self, connection: socket.socket, release: Callable[[], None], send_timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        self._socket, self._release, self._send_timeout_s = connection, release, send_timeout_s
        self._socket.setblocking(False)
        self._streams = Demultiplexer()
        self._parser = FrameParser(self._streams.stdout)
        self._ended = self._closed = False

    @property
    def stderr(self) -> bytes:
        """The end of what the program wrote to stderr."""
        return bytes(self._streams.stderr)

    def send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        """Send one frame. ChannelClosed when the program is gone, ChannelTimeout when it does not read."""
        line = json.dumps({**header, "size": len(body)}, ensure_ascii=True).encode() + b"\n"
        deadline = time.monotonic() + self._send_timeout_s
        pieces = deque((memoryview(line), memoryview(body)))
        while pieces:
            sent = self._send_some(pieces[0], deadline)
            pieces[0] = pieces[0][sent:]
            if not pieces[0]:
                pieces.popleft()

    def receive(self, deadline: float, max_body: int) -> Frame:
        """The next frame; see `cells.sandbox.Channel`."""
        late = False
        while True:
            frame = self._parser.next(max_body)
            if frame is not None:
                return frame
            if self._ended or self._closed:
                raise ChannelClosed("the program's stdout ended")
            if late:  # one byte now and then must not stretch a deadline
                raise ChannelTimeout(_SILENCE)
            late = time.monotonic() >= deadline
            self._read_some(deadline)

    def close(self) -> None:
        """Close both directions; safe twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._release()

    def _send_some(self, piece: memoryview, deadline: float) -> int:
        if not piece:
            return 0
        self._await(select.POLLOUT, deadline, "the program does not read what it is sent")
        try:
            return self._socket.send(piece)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelClosed(f"cannot send to the program: {error}") from error

    def _read_some(self, deadline: float) -> None:
        self._await(select.POLLIN, deadline, _SILENCE)
        try:
            content = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self._ended = True
        self._streams.feed(content)

    def _await(self, event: int, deadline: float, complaint: str) -> None:
        if self._closed:
            raise ChannelClosed("this side closed the channel")
        poll = select.poll()
        poll.register(self._socket, event)
        # Rounded up: a wait that ends just before its deadline would spin.
        if not poll.poll(max(0, int((deadline - time.monotonic()) * 1000) + 1)):
            raise ChannelTimeout(complaint)
