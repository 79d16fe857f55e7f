"""The record of one cell, as the gateway writes it: wire rows and bodies made durable, derived files growing beside
them.

Rules:
1. The order of rows on disk, of their numbers and of what is derived from them is one order: while a request waits for
   a decision,
   everything else of its cell waits for it.
2. A request is passed on after its row and its bodies are durable. A response's row is written after its last byte;
   nobody waits for its sync.
3. Derived files are not synced until the end: they can be derived again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from cells.recording.blobs import PACK, PackWriter, PreparedBody, prepare
from cells.recording.derive import Derivation, Derived
from cells.recording.prefix import GrowingPrefix
from cells.recording.wire import BodyRef, CloseRow, OpenRow, WireRow, encode_row
from launchers.gateway.commit import GroupCommit, GrowingFile

_LARGE = 1 << 20
RowT = TypeVar("RowT", bound=WireRow)
NAMES = ("wire.jsonl", "trace.jsonl", "transcript.log", "usage.jsonl")


@dataclass(frozen=True)
class Stamp:
    """A moment: seconds since the attempt's start, and UTC for people."""

    t_mono_s: float
    at: str


@dataclass
class SessionRecord:
    """Files, numbers and derivation of one cell."""

    started_mono: float
    files: dict[str, GrowingFile]
    pack: PackWriter
    commit: GroupCommit
    derivation: Derivation = field(default_factory=Derivation)
    prefix: GrowingPrefix = field(default_factory=GrowingPrefix)
    heavy: Executor | None = None
    """For hashing and compressing large bodies: apart from the syncs, which must not wait for it."""
    _seq: int = 0
    _exchange: int = 0
    _arrival: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def create(
        cls, attempt_root: Path, started_mono: float, executor: Executor, heavy: Executor | None = None
    ) -> SessionRecord:
        """Begin the record of an attempt. FileExistsError when one stands there already."""
        live = attempt_root / "live"
        (live / PACK).parent.mkdir(mode=0o750, exist_ok=True)
        files = {name: GrowingFile.create(live / name) for name in (*NAMES, PACK)}

        def dirty() -> list[int]:
            found = [files[name] for name in (PACK, "wire.jsonl") if files[name].dirty]
            for file in found:
                file.dirty = False
            return [file.descriptor for file in found]

        return cls(started_mono, files, PackWriter(files[PACK].add), GroupCommit(executor, dirty), heavy=heavy)

    def stamp(self) -> Stamp:
        """Now."""
        at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return Stamp(round(time.monotonic() - self.started_mono, 6), at)

    def next_exchange(self) -> int:
        """The number of the exchange that arrives now."""
        self._exchange += 1
        return self._exchange

    @property
    def exchanges(self) -> int:
        return self._exchange

    @property
    def size(self) -> int:
        """Bytes of all files so far."""
        return sum(file.size for file in self.files.values())

    @asynccontextmanager
    async def arrival(self) -> AsyncIterator[None]:
        """The block from the place of a request to its row: no other row of this cell comes between."""
        try:
            async with self._arrival:
                yield
        finally:
            if not self._arrival.locked():
                self._run_waiting()

    def after_arrival(self, action: Callable[[], None]) -> None:
        """Do something that writes a row: at once, or as soon as the arriving request has its row."""
        self._waiting.append(action)
        if not self._arrival.locked():
            self._run_waiting()

    def _run_waiting(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()

    def store(self, body: bytes | PreparedBody) -> BodyRef:
        """Keep a body; it becomes durable with the row that names it."""
        return self.pack.put_prepared(body) if isinstance(body, PreparedBody) else self.pack.put(body)

    async def prepared(self, body: bytes) -> bytes | PreparedBody:
        """A large body, hashed and compressed in a thread, so that other cells are not held up by it."""
        if len(body) < _LARGE:
            return body
        return await asyncio.get_running_loop().run_in_executor(self.heavy, prepare, body)

    def write(self, make: Callable[[int], RowT]) -> RowT:
        """Write a row, made with its number."""
        self._seq += 1
        row = make(self._seq)
        self.files["wire.jsonl"].add(encode_row(row))
        return row

    def derived(self, parts: Derived) -> None:
        """Write what follows from a row."""
        self.files["trace.jsonl"].add(parts.trace)
        self.files["transcript.log"].add(parts.transcript)
        self.files["usage.jsonl"].add(parts.usage)
        self.prefix.add(parts.trace)

    def flush(self) -> int:
        """Hand everything written to the file system; the mark of `durable`."""
        for file in self.files.values():
            file.flush()
        return self.commit.written()

    def begin(self, segment: int, provenance: dict[str, Any]) -> None:
        """Begin a segment."""
        stamp = self.stamp()

        def row(seq: int) -> OpenRow:
            return OpenRow(seq=seq, t_mono_s=stamp.t_mono_s, at=stamp.at, segment=segment, provenance=provenance)

        self.derived(self.derivation.open(self.write(row)))
        self.flush()

    def close(self, finish_reason: str | None) -> int:
        """End the record."""
        stamp = self.stamp()

        def row(seq: int) -> CloseRow:
            return CloseRow(seq=seq, t_mono_s=stamp.t_mono_s, at=stamp.at, finish_reason=finish_reason)

        self.derived(self.derivation.close(self.write(row)))
        return self.flush()

    def close_files(self) -> None:
        """Sync the derived files, too, and close all."""
        for file in self.files.values():
            os.fdatasync(file.descriptor)
            file.close()
