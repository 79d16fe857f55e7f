"""The end of the live side: views of the trace, the facts of how it ended, and the seal over live/.

Rules:
1. Every writer has closed its files, and the agent's container is gone, before the seal.
2. Facts come from our own records, the gateway's, and the first process's report; what nobody saw is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cells.artifacts import Writer
from cells.attempt import SealedAttempt
from cells.errors import AssayError
from cells.evidence.digest import digest_bytes
from cells.evidence.files import read_regular
from cells.outcome import Ended
from cells.recording.state import state_bytes
from launchers.conclude import Ending
from launchers.gateway.contract import SessionTotals
from launchers.harness_claims import claim_findings
from launchers.prepare_cell import Prepared

FACTS_VERSION = 1
_TRACE = "live/trace.jsonl"
_OF_THE_GATEWAY = ("live/wire.jsonl", _TRACE, "live/transcript.log", "live/usage.jsonl")


@dataclass(frozen=True)
class Conclusion:
    """How it ended. `timings` in seconds: the phases, run_s, active_s, waited_s, copy_s; unknown is None."""

    ended: Ended
    detail: str
    ending: Ending
    timings: dict[str, float | None]


def seal_live(cell: Prepared, conclusion: Conclusion, findings: list[dict[str, Any]]) -> SealedAttempt:
    """Write what only the end can say, and close live/."""
    trace = read_regular(cell.attempt.root / _TRACE)
    rows = whole_rows(trace)
    cell.attempt.write("live/.solver/state.json", state_bytes(rows), Writer.SEALER)
    cell.attempt.write("live/fingerprint.txt", digest_bytes(trace).encode() + b"\n", Writer.SEALER)
    torn = [] if trace.endswith(b"\n") or not trace else [{"kind": "torn_trace"}]
    found = [*findings, *torn, *claim_findings(cell.attempt.root, rows)]
    return cell.attempt.seal(found, facts_of(cell, conclusion))


def close_records(cell: Prepared) -> SessionTotals | None:
    """Close the gateway's records, or write the empty ones of a cell without a model; what the cell used."""
    if cell.door.session is not None:
        return cell.door.close()
    for name in _OF_THE_GATEWAY:  # no model was asked: the record is there, and empty
        if not (cell.attempt.root / name).exists():
            cell.attempt.write(name, b"", Writer.LAUNCHER)
    return None


def trace_rows(cell: Prepared) -> list[dict[str, Any]]:
    """The whole rows of live/trace.jsonl."""
    return whole_rows(read_regular(cell.attempt.root / _TRACE))


def whole_rows(trace: bytes) -> list[dict[str, Any]]:
    """The rows of a trace without a torn last one, which a gateway that was killed may leave."""
    return [json.loads(line) for line in trace[: trace.rfind(b"\n") + 1].splitlines()]


def facts_of(cell: Prepared, conclusion: Conclusion) -> dict[str, Any]:
    """The facts that stand in live/SEAL.json."""
    report, totals, image = conclusion.ending.report, cell.door.close(), cell.request.image
    return {
        "v": FACTS_VERSION,
        "ended": conclusion.ended.value,
        "detail": conclusion.detail,
        "exit_code": None if report is None else report.exit_code,
        "signal": None if report is None else report.signal,
        "usage": None if report is None else report.usage,
        "disk": None if report is None else report.disk,
        "timings": conclusion.timings,
        "counters": cell.sampler.highest(),
        "budget": None if totals is None else totals.as_json(),
        "exposure": _exposure(cell),
        "layers": [layer.facts() for layer in cell.request.layers],
        "control": cell.request.spec.arm.control,
        "harness": cell.harness.name,
        "engine": {"begin": dict(cell.engine), "end": _engine_now(cell)},
        "base": {
            "head_commit": image.head_commit,
            "head_tree": image.head_tree,
            "base_commit": image.base_commit,
            "base_tree": image.base_tree,
            "image_id": image.image_id,
        },
    }


def findings_of(ending: Ending) -> Iterator[dict[str, Any]]:
    """What the first process saw that a reader of the result should know."""
    report = ending.report
    if report is None:
        return
    if report.left_processes:
        yield {"kind": "left_processes", "count": report.left_processes}
    for stream, carried in report.output.items():
        if carried.dropped:
            yield {"kind": "output_dropped", "stream": stream, "bytes": carried.dropped}
    if report.disk.get("free_mb") == 0:
        yield {"kind": "disk_full"}
    if report.disk.get("free_inodes") == 0:
        yield {"kind": "inodes_full"}


def _exposure(cell: Prepared) -> list[str]:
    """What any process of the cell can reach that is not the task's (one-container form)."""
    exposed = ["harness_files"]
    if cell.door.session is not None:
        exposed.append("gateway_socket")
    if cell.volumes.records is not None:
        exposed.append("harness_record")
    return exposed


def _engine_now(cell: Prepared) -> dict[str, Any] | None:
    try:
        return cell.tools.sandboxes.engine_identity()
    except AssayError:
        return None
