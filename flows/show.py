"""One cell for people: what happened to it, which files there are and who may read them, and why it ended as it did.

The verdict is shown only when the study is closed or was unblinded: a single cell must not leak what `status` hides.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from cells.artifacts import CONTRACT
from cells.artifacts.members import member_names
from cells.design.matrix import PlannedCell
from cells.errors import UsageError
from cells.evidence.history import Unit
from flows.status import StudyState
from flows.text import duration, table

_HIDDEN = ("verdict", "reason", "resolved", "f2p_passed", "f2p_fraction", "p2p_passed", "p2p_fraction")


def find_cell(state: StudyState, reference: str) -> PlannedCell:
    """The cell of a directory name, a digest's start, or task/arm/sample. UsageError when not exactly one."""
    found = [cell for cell in state.cells if _matches(cell, reference)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(cell.spec.directory for cell in (found or state.cells)[:6])
    said = f"{len(found)} cells match" if found else "no cell matches"
    raise UsageError(f"asked for cell {reference!r}; {said}. Use task/arm/sample, as one of: {names}")


def show_document(state: StudyState, cell: PlannedCell) -> dict[str, Any]:
    """The JSON of `assay show`."""
    attempts = [unit for unit in state.history.units.values() if unit.cell == cell.spec.directory]
    accepted = state.unit(cell)
    open_eyes = not state.is_open or any(row.kind == "unblinded" for row in state.study.store.ledger.rows())
    root = None if accepted is None else state.study.store.bundle(accepted)
    return {
        "cell": cell.spec.directory,
        "cell_id": cell.spec.cell_id,
        "order": cell.order,
        "spec": cell.spec.as_json(),
        "running": next((row for row in state.running if row["cell"] == cell.spec.directory), None),
        "attempts": [_attempt(unit) for unit in sorted(attempts, key=lambda unit: unit.path)],
        "accepted": None if accepted is None else _facts(accepted, open_eyes),
        "directory": None if root is None else str(root),
        "trace": None if root is None else trace_summary(root / "live" / "trace.jsonl"),
        "files": [] if root is None else files(root),
    }


def show_text(document: dict[str, Any]) -> str:
    """The document in words and tables."""
    accepted = document["accepted"]
    parts = [f"{document['cell']}\n{document['cell_id']}, place {document['order']} in the plan"]
    if document["running"]:
        row = document["running"]
        parts.append(f"running: {row['attempt']} in {row['phase']} for {duration(row['phase_age_s'])}")
    rows = [
        (a["attempt"], a["outcome"], a["accepted"], a["why"], a["bundle_sha256"][:19]) for a in document["attempts"]
    ]
    parts.append(
        table(("attempt", "outcome", "accepted", "why", "bundle"), rows) if rows else "no attempt has ended yet"
    )
    if accepted is not None:
        phases = accepted.pop("phase_s", None) or {}
        parts.append("\n".join(f"{key:18} {value}" for key, value in accepted.items() if value is not None))
        parts.append("phases: " + ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in phases.items()))
        parts.append("trace: " + (", ".join(f"{k} {v}" for k, v in (document["trace"] or {}).items()) or "empty"))
        shown = [(f["name"], f["bytes"], f["writer"], f["ready"], f["readers"]) for f in document["files"]]
        parts.append(table(("file", "bytes", "writer", "ready", "readers"), shown))
        parts.append(document["directory"])
    return "\n\n".join(parts)


def files(root: Path) -> list[dict[str, Any]]:
    """Every file of a bundle with its row of the contract."""
    found = []
    for name in member_names(root):
        row = CONTRACT.row_for(name)
        found.append(
            {
                "name": name,
                "bytes": (root / name).lstat().st_size,
                "writer": ", ".join(sorted(writer.value for writer in row.writers)),
                "ready": row.ready_words(),
                "readers": ", ".join(row.readers()),
            }
        )
    return found


def trace_summary(path: Path) -> dict[str, int]:
    """How often each event stands in the trace, and the number of turns."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return dict(sorted(Counter(str(row["event"]) for row in rows).items()))


def _matches(cell: PlannedCell, reference: str) -> bool:
    spec = cell.spec
    if reference in (spec.directory, f"{spec.task}/{spec.arm.name}/{spec.sample}"):
        return True
    digest = reference.removeprefix("sha256:")
    return len(digest) >= 4 and spec.cell_id.removeprefix("sha256:").startswith(digest)


def _attempt(unit: Unit) -> dict[str, Any]:
    detail = unit.detail
    return {
        "attempt": detail.get("attempt"),
        "outcome": detail.get("outcome"),
        "accepted": detail.get("kind") == "attempt",
        "why": detail.get("reason") if detail.get("kind") == "lost_attempt" else None,
        "bundle_sha256": unit.digest,
        "superseded_by": unit.superseded_by,
        "withdrawn": unit.withdrawn,
    }


def _facts(unit: Unit, open_eyes: bool) -> dict[str, Any]:
    hidden = () if open_eyes else _HIDDEN
    return {key: "hidden while cells are open" if key in hidden else value for key, value in unit.detail.items()}
