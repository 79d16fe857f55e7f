"""What post-run code reads of a sealed attempt besides its patch: the cell, how it ended, usage, trace, noise rows.

Rule: every file is opened for the role and the purpose that its row of the contract allows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from cells.artifacts import Role
from cells.artifacts.conditions import Condition
from cells.attempt import SealedAttempt
from cells.design.cell import CellLimits
from cells.errors import EvidenceError
from cells.outcome import Ended

_LIMITS: TypeAdapter[CellLimits] = TypeAdapter(CellLimits)


@dataclass(frozen=True)
class CellRecord:
    """The cell of an attempt, from start/: spec.json and session.json."""

    spec: dict[str, Any]
    session: dict[str, Any]

    @property
    def limits(self) -> CellLimits:
        """The cell's limits."""
        return _LIMITS.validate_python(self.spec["limits"])

    @property
    def arm(self) -> dict[str, Any]:
        """The arm's content."""
        return dict(self.spec["arm"])

    @property
    def control(self) -> str | None:
        """`oracle` or `nop` for a control, None for an arm of the study."""
        control = self.arm.get("control")
        return None if control is None else str(control)

    @property
    def model(self) -> str | None:
        """The model that was asked, by the name that its provider knows."""
        model = self.arm.get("model") or {}
        found = model.get("model") or model.get("name")
        return None if found is None else str(found)


def read_cell(sealed: SealedAttempt) -> CellRecord:
    """The cell that an attempt ran."""
    spec = _document(sealed, "start/spec.json", Condition.GROUPING_ONLY)
    session = _document(sealed, "start/session.json", Condition.GROUPING_ONLY)
    return CellRecord(spec, session)


def ended_of(sealed: SealedAttempt) -> Ended:
    """How the live side ended, from the seal."""
    return Ended(sealed.facts["ended"])


def read_rows(sealed: SealedAttempt, name: str, purpose: Condition | None = None) -> list[dict[str, Any]]:
    """The rows of a record of ours; a torn last line is no row."""
    if not sealed.has(name):
        return []
    content = sealed.read(name, Role.SCORING, purpose)
    try:
        return [json.loads(line) for line in content.split(b"\n")[:-1]]
    except ValueError as error:
        raise EvidenceError(f"{name}: a row is not JSON ({error})") from error


def _document(sealed: SealedAttempt, name: str, purpose: Condition) -> dict[str, Any]:
    document = json.loads(sealed.read(name, Role.SCORING, purpose))
    if not isinstance(document, dict):
        raise EvidenceError(f"{name}: expected an object")
    return document
