"""Hands the harness's output on to the launcher: the beginning up to a cap, then only its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

TAIL = 32 * 1024
_READ = 64 * 1024


class Relay:
    """One stream of the harness; `descriptor` is the read end of its pipe, set to non-blocking."""

    def __init__(self, name: str, descriptor: int, cap: int, send: Callable[[dict[str, Any], bytes], None]) -> None:
        self.name, self.descriptor, self.open = name, descriptor, True
        self._cap, self._send = cap, send
        self._tail = bytearray()
        self._seen = self._sent = 0

    def read(self) -> None:
        """Take what is there; closes itself at the end of the stream."""
        try:
            content = os.read(self.descriptor, _READ)
        except BlockingIOError:
            return
        if not content:
            os.close(self.descriptor)
            self.open = False
            return
        self._seen += len(content)
        head = content[: self._cap - self._sent]
        if head:
            self._sent += len(head)
            self._send({"type": "output", "stream": self.name}, head)
        self._tail += content[len(head) :]
        del self._tail[:-TAIL]

    def finish(self) -> dict[str, int]:
        """Send the end of what was over the cap; how much was written, and how much of it nobody keeps."""
        if self._tail:
            self._send({"type": "output", "stream": self.name, "end": True}, bytes(self._tail))
        return {"bytes": self._seen, "dropped": self._seen - self._sent - len(self._tail)}
