"""JSON Schemas of what Assay reads and writes, exported to docs/schemas/ for readers in other languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cells.artifacts.decision_rows import ControllerRow, ExplainedRow, ModelCallRow
from cells.artifacts.seals import JournalRow, SealFile
from cells.design.cell import ArmContent, CellLimits, CellSpec
from cells.design.plan import TaskEntry
from cells.design.study_model import StudyFile
from cells.evidence.ledger import Row
from cells.recording.schemas import SCHEMAS as RECORDING
from cells.tasks.image import TaskImage
from cells.tasks.task_model import TaskFile
from launchers.gateway.contract import SessionTotals
from launchers.gateway.providers.scripted import ScriptedReply
from scoring.collected import Collected
from scoring.verify import Verified

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: dict[str, Any] = {
    "study-file": StudyFile,
    "task-file": TaskFile,
    "script-line": ScriptedReply,
    "cell-spec": CellSpec,
    "cell-arm": ArmContent,
    "cell-limits": CellLimits,
    "plan-task": TaskEntry,
    "ledger-row": Row,
    "provenance-image": TaskImage,
    "seal": SealFile,
    "seal-budget": SessionTotals,
    "journal-row": JournalRow,
    "decision-ledger-row": ControllerRow,
    "decision-debug-row": ExplainedRow,
    "decision-model-call": ModelCallRow,
    "collect": Collected,
    "verify": Verified,
    **{name.replace("_", "-"): model for name, model in RECORDING.items()},
}


def schemas() -> dict[str, dict[str, Any]]:
    """Name -> JSON Schema, sorted by name."""
    return {name: _schema(name, _TYPES[name]) for name in sorted(_TYPES)}


def write_schemas(directory: Path) -> list[Path]:
    """Write every schema to `<directory>/<name>.schema.json`; what is there under other names is left alone."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in schemas().items():
        path = directory / f"{name}.schema.json"
        path.write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n")
        written.append(path)
    return written


def _schema(name: str, kind: Any) -> dict[str, Any]:
    schema = TypeAdapter(kind).json_schema(mode="serialization" if kind in (Row, CellSpec) else "validation")
    return {"$schema": DIALECT, "$id": f"urn:assay:schema:{name}", **schema}


if __name__ == "__main__":
    write_schemas(Path(__file__).resolve().parents[1] / "docs" / "schemas")
