"""Gathers a harness's own record after its container is dead: from the collector, capped, scrubbed, into live/harness/.

What arrives are bytes and names that a cell wrote: a name is used only when the contract's rules for names take it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cells.artifacts import UndeclaredArtifact, Writer
from cells.attempt import LiveAttempt
from cells.errors import BoundaryViolation, EvidenceError, InfraFailure
from cells.evidence.files import read_regular
from cells.incell.trusted import VOLUME_ROOT
from cells.recording.secrets import scrub
from cells.sandbox import Channel, ChannelClosed, ChannelTimeout, Frame
from launchers.harnesses.protocol import Gather, ReadRecord
from launchers.mounts import COLLECTOR_RECORDS

CAPS = {"files": 2000, "file_bytes": 32 << 20, "total_bytes": 128 << 20}
TIMEOUT_S = 120.0
_ROOTS = {"records": COLLECTOR_RECORDS, "workdir": VOLUME_ROOT}
_FOLDERS = {COLLECTOR_RECORDS: "live/harness", VOLUME_ROOT: "live/harness/workdir"}
_MOST_FINDINGS = 100

Finding = dict[str, Any]


def gather(
    channel: Channel, attempt: LiveAttempt, wanted: Sequence[Gather], secrets: Mapping[str, str]
) -> list[Finding]:
    """Ask for the declared files and write what comes; findings tell what was not kept.

    Raises InfraFailure("collector_lost") when the collector does not answer whole and in time.
    """
    if not wanted:
        return []
    files = [{"root": _ROOTS[row.root], "pattern": row.pattern} for row in wanted]
    deadline = time.monotonic() + TIMEOUT_S
    findings: list[Finding] = []
    try:
        channel.send({"type": "gather"}, json.dumps({"files": files, "caps": CAPS}).encode("ascii"))
        while True:
            frame = channel.receive(deadline, CAPS["file_bytes"])
            if frame.type == "gathered":
                return findings[:_MOST_FINDINGS]
            finding = _take(frame, attempt, secrets)
            if finding is not None:
                findings.append(finding)
    except (ChannelClosed, ChannelTimeout) as error:
        raise InfraFailure("collector_lost", f"while it gathered the harness's record: {error}") from error


def reader_of_record(attempt: LiveAttempt) -> ReadRecord:
    """Reads what was gathered from the records volume, by the name it has there."""

    def read(name: str) -> bytes | None:
        path = attempt.root / _FOLDERS[COLLECTOR_RECORDS] / name
        return read_regular(path) if path.exists() else None

    return read


def _take(frame: Frame, attempt: LiveAttempt, secrets: Mapping[str, str]) -> Finding | None:
    name = str(frame.header.get("name", ""))
    if frame.type == "skipped":
        return {"kind": "not_gathered", "name": name, "reason": str(frame.header.get("reason", ""))}
    if frame.type == "error":
        raise InfraFailure("collector_lost", f"it could not gather: {frame.header.get('detail')}")
    if frame.type != "file":
        raise InfraFailure("bad_frame", f"the collector said {frame.type!r} while it gathered")
    folder = _FOLDERS.get(str(frame.header.get("root")))
    if folder is None:
        raise InfraFailure("bad_frame", f"the collector gathered from {frame.header.get('root')!r}")
    try:
        attempt.write(f"{folder}/{name}", scrub(frame.body, secrets), Writer.GATHERER)
    except (BoundaryViolation, UndeclaredArtifact, EvidenceError) as refusal:
        return {"kind": "not_gathered", "name": name, "reason": str(refusal)[:300]}
    return None
