"""Frames on file descriptors: one JSON header line and `size` body bytes, as `cells.sandbox.Channel` reads and writes
them."""

from __future__ import annotations

import json
import os
from typing import IO, Any

MAX_HEADER_BYTES = 1 << 20
PART_BYTES = 1 << 20
"""Long streams are sent as parts of at most this many bytes."""


class BadFrame(Exception):
    """The other side sent something that is no frame."""


def read_frame(stream: IO[bytes], max_body: int) -> tuple[dict[str, Any], bytes] | None:
    """The next frame, None at the end of the stream; BadFrame for junk, for a cut frame and for a body over
    `max_body` bytes."""
    line = stream.readline(MAX_HEADER_BYTES)
    if not line:
        return None
    try:
        header = json.loads(line)
    except ValueError as error:
        raise BadFrame("header is not JSON") from error
    if not isinstance(header, dict):
        raise BadFrame("header is not an object")
    size = header.get("size", 0)
    if not isinstance(size, int) or not 0 <= size <= max_body:
        raise BadFrame(f"body of {size!r} bytes, allowed 0 to {max_body}")
    body = stream.read(size) if size else b""
    if len(body) != size:
        raise BadFrame(f"body ends after {len(body)} of {size} bytes")
    return header, body


def write_frame(descriptor: int, header: dict[str, Any], body: bytes = b"") -> None:
    """Write one frame whole."""
    line = json.dumps({**header, "size": len(body)}, ensure_ascii=True).encode("ascii") + b"\n"
    _write_all(descriptor, line)
    _write_all(descriptor, body)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
