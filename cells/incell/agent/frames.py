"""Frames between the first process and the launcher: one JSON header line, then `size` bytes of body."""

from __future__ import annotations

import json
import os
from typing import Any

MAX_LINE = 64 * 1024
_READ = 64 * 1024


class HostGone(Exception):
    """The launcher's end of the channel is closed."""


class Reader:
    """Reads frames from a descriptor; one reader for each descriptor, since it reads ahead."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = b""

    def frame(self) -> tuple[dict[str, Any], bytes]:
        """The next frame. HostGone at the end of the stream, ValueError for what is no frame."""
        while b"\n" not in self._held:
            if len(self._held) > MAX_LINE:
                raise ValueError("header line too long")
            self._held += self._more()
        line, _, self._held = self._held.partition(b"\n")
        header = json.loads(line)
        size = int(header.get("size", 0))
        pieces, have = [self._held[:size]], len(self._held[:size])
        self._held = self._held[size:]
        while have < size:
            more = self._more()
            pieces.append(more[: size - have])
            self._held = more[size - have :]
            have += len(pieces[-1])
        return header, b"".join(pieces)

    def _more(self) -> bytes:
        content = os.read(self._descriptor, _READ)
        if not content:
            raise HostGone
        return content


def send(descriptor: int, header: dict[str, Any], body: bytes = b"") -> None:
    """Write one frame whole. HostGone when nobody reads."""
    line = json.dumps({**header, "size": len(body)}).encode("ascii") + b"\n"
    view = memoryview(line + body)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise HostGone from error
