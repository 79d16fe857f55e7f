"""plan.lock.json: the frozen design. What was asked, resolved to digests, so that the same plan gives the same cells
anywhere.

Rules:
1. The bytes are canonical JSON; `plan_sha256` is their digest; the ledger binds it.
2. A revision is a new file (`plan.lock.r002.json`) that names the digest of the one before; nothing is rewritten.
3. Cells are specs: identity needs no engine.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from cells.design.cell import ArmContent, CellLimits, CellSpec
from cells.design.matrix import PlannedCell
from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json, digest_bytes

PLAN_VERSION = 1


@dataclass(frozen=True)
class TaskEntry:
    """A task of the design: what it is and which bytes it is."""

    id: str
    repository: str
    sha256: str
    recipe_sha256: str
    without_control: bool


@dataclass(frozen=True)
class Plan:
    """A frozen design."""

    study: str
    seed: int
    revision: int
    previous: str | None
    design: dict[str, Any]
    tasks: tuple[TaskEntry, ...]
    cells: tuple[PlannedCell, ...]
    assay_version: str

    def to_bytes(self) -> bytes:
        """Canonical bytes of plan.lock.json."""
        return canonical_json(
            {
                "v": PLAN_VERSION,
                "study": self.study,
                "seed": self.seed,
                "revision": self.revision,
                "previous": self.previous,
                "design": self.design,
                "tasks": [asdict(task) for task in self.tasks],
                "cells": [
                    {"cell_id": cell.spec.cell_id, "order": cell.order, "spec": cell.spec.as_json()}
                    for cell in self.cells
                ],
                "assay_version": self.assay_version,
            }
        )

    @property
    def sha256(self) -> str:
        """`plan_sha256` of every output."""
        return digest_bytes(self.to_bytes())

    @property
    def content_sha256(self) -> str:
        """Digest of what was asked, whichever revision and version of Assay wrote it: equal means nothing to accept."""
        cells = sorted(cell.spec.cell_id for cell in self.cells)
        tasks = sorted(asdict(task).items() for task in self.tasks)
        return digest_bytes(
            canonical_json(
                [self.study, self.seed, self.design, cells, [[list(pair) for pair in task] for task in tasks]]
            )
        )

    @property
    def file_name(self) -> str:
        return plan_file_name(self.revision)

    def task(self, task_id: str) -> TaskEntry:
        return next(task for task in self.tasks if task.id == task_id)


def plan_file_name(revision: int) -> str:
    """`plan.lock.json`, then `plan.lock.r002.json`, ..."""
    return "plan.lock.json" if revision == 1 else f"plan.lock.r{revision:03d}.json"


def parse_plan(content: bytes, name: str) -> Plan:
    """The plan in the bytes of a lock file. EvidenceError for another version, a changed cell or bytes that are
    not canonical.
    """
    document = _document(content, name)
    study = document["study"]
    cells = tuple(_cell(entry, study, name) for entry in document["cells"])
    tasks = tuple(TaskEntry(**task) for task in document["tasks"])
    plan = Plan(
        study,
        document["seed"],
        document["revision"],
        document["previous"],
        document["design"],
        tasks,
        cells,
        document["assay_version"],
    )
    if plan.to_bytes() != content:
        raise EvidenceError(f"{name}: changed by hand (its bytes are not the canonical form of its content)")
    return plan


def _document(content: bytes, name: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise EvidenceError(f"{name}: not JSON ({error})") from error
    version = document.get("v") if isinstance(document, dict) else None
    if version != PLAN_VERSION:
        raise EvidenceError(f"{name}: plan version {version!r}; this version of Assay reads {PLAN_VERSION}")
    return dict(document)


def _cell(entry: dict[str, Any], study: str, name: str) -> PlannedCell:
    spec = spec_from_json(entry["spec"], study)
    if spec.cell_id != entry["cell_id"]:
        raise EvidenceError(
            f"{name}: cell {entry['cell_id']} was changed by hand: its content has the digest {spec.cell_id}"
        )
    return PlannedCell(spec, entry["order"])


def spec_from_json(content: dict[str, Any], study: str) -> CellSpec:
    """A CellSpec from start/spec.json or a plan entry."""
    fields = {key: value for key, value in content.items() if key != "v"}
    return CellSpec(
        study=study, **fields | {"arm": ArmContent(**fields["arm"]), "limits": CellLimits(**fields["limits"])}
    )
