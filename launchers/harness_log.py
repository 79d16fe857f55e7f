"""live/harness.stdout.log and live/harness.stderr.log: what the harness printed, scrubbed, while it prints it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO

from cells.artifacts import Writer
from cells.attempt import LiveAttempt
from cells.incell.agent.relay import TAIL
from cells.recording.secrets import forms, scrub

NAMES = {"stdout": "live/harness.stdout.log", "stderr": "live/harness.stderr.log"}
OUTPUT_CAP = 4 << 20
"""Bytes kept of each stream, beside the end of what is over it."""
GAP = b"\n[... more than the cap; the end follows ...]\n"


class HarnessLog:
    """Writes both streams; a secret that is cut by two pieces is still found, since its length is held back."""

    def __init__(self, attempt: LiveAttempt, secrets: Mapping[str, str]) -> None:
        self._secrets, self._cap = dict(secrets), OUTPUT_CAP + TAIL + len(GAP)
        longest = max((len(needle) for value in secrets.values() for _, needle in forms(value)), default=1)
        self._hold_back = longest - 1
        self._files: dict[str, IO[bytes]] = {}
        self._held = dict.fromkeys(NAMES, b"")
        self._written = dict.fromkeys(NAMES, 0)
        for stream, name in NAMES.items():
            path = attempt.claim(name, Writer.LAUNCHER)
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
            self._files[stream] = os.fdopen(descriptor, "wb", buffering=0)

    def take(self, stream: str, content: bytes, *, end: bool) -> None:
        """A piece of a stream; `end` marks the end of a stream whose middle was left out."""
        if stream not in self._files:
            return
        if end:
            self._flush(stream)
            self._write(stream, GAP)
        held = scrub(self._held[stream] + content, self._secrets)
        ready = max(0, len(held) - self._hold_back)
        self._held[stream] = held[ready:]
        self._write(stream, held[:ready])

    def close(self) -> None:
        """Write what is held back and make both files durable; safe twice."""
        for stream, file in self._files.items():
            if not file.closed:
                self._flush(stream)
                os.fsync(file.fileno())
                file.close()

    def _flush(self, stream: str) -> None:
        self._write(stream, self._held[stream])
        self._held[stream] = b""

    def _write(self, stream: str, content: bytes) -> None:
        room = self._cap - self._written[stream]
        self._files[stream].write(content[:room])
        self._written[stream] += len(content[:room])
