"""The live record made again: the trace from the wire, the state from the trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cells.audit.findings import Violation
from cells.errors import EvidenceError
from cells.evidence.files import read_regular
from cells.recording.blobs import PACK, read_pack
from cells.recording.derive import Derived, derive
from cells.recording.state import state_bytes
from cells.recording.wire import RequestRow, WireRecord, read_wire

TRACE, WIRE, STATE = "live/trace.jsonl", "live/wire.jsonl", "live/.solver/state.json"


class LiveRecord:
    """The wire record and the trace of an attempt, read once."""

    def __init__(self, root: Path) -> None:
        self.wire: WireRecord = read_wire(read_regular(root / WIRE))
        self.trace: bytes = read_regular(root / TRACE)
        pack = root / "live" / PACK
        self._derived = derive(self.wire.rows, read_pack(read_regular(pack)).body) if pack.exists() else Derived()

    def violations(self, root: Path) -> Iterator[Violation]:
        """Where the derived files are not what the wire gives."""
        if self._derived.trace != self.trace:
            yield Violation("trace_differs", TRACE, "it is not what the wire record gives when it is derived again")
        state = root / STATE
        if state.exists() and read_regular(state) != state_bytes(self._derived.rows):
            yield Violation("state_differs", STATE, "it is not the projection of the trace")

    def first_notes(self) -> list[tuple[int, str]]:
        """(turn, digest) of every note on the wire, once, in the order in which they were added."""
        requests = [row for row in self.wire.rows if isinstance(row, RequestRow)]
        return [(note.turn, note.digest) for row in requests for note in row.notes if note.first]


def read_live_record(root: Path) -> tuple[LiveRecord | None, list[Violation]]:
    """The record, or why it cannot be read."""
    try:
        return LiveRecord(root), []
    except EvidenceError as error:
        return None, [Violation("record_broken", WIRE, str(error))]
