"""The artifact contract as data: who writes each file, when it is ready, who may read it, and readers that obey it.

Rules (they are the first of the five walls):
1. A file without a row cannot be written (`UndeclaredArtifact`).
2. A file that is ready only after the run cannot have a row that lets context, detector or controller read it
   (`ContractError`).
3. Rows are found by scope and whole pattern, never by base name.
4. A study may narrow a row or a reader, never widen it.
"""

from cells.artifacts.model import (
    ContractError,
    Grant,
    Permission,
    Readiness,
    Role,
    Row,
    Scope,
    UndeclaredArtifact,
    Writer,
)
from cells.artifacts.table import CONTRACT, Contract, row_for

__all__ = [
    "CONTRACT",
    "Contract",
    "ContractError",
    "Grant",
    "Permission",
    "Readiness",
    "Role",
    "Row",
    "Scope",
    "UndeclaredArtifact",
    "Writer",
    "row_for",
]
