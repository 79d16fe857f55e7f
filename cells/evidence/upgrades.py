"""Upgrades: older rows and documents read as today's, by pure steps; bytes on disk are never rewritten.

Rules (30-evidence 32; issue "Upgrades"):
1. A version has one step to the next, a pure function of the parsed document; an unknown version is refused by
   whoever reads.
2. A ledger has one version. One that mixes versions is refused; an older one opens for reading, `assay fork` makes
   one that can run.

History of the ledger's rows:
  0  before the first release: `actor` for `who`, no `sum`, the first row's detail names only the root's id.
  1  `who`, `sum` (the row guards its own bytes), the first row binds root.json's digest and the frozen folders.
"""

from __future__ import annotations

from typing import Any

LEDGER_VERSION = 1
_FIELDS_V0 = frozenset({"v", "seq", "kind", "subject", "digest", "at", "actor", "detail", "prev"})


def upgrade_row_v0(row: dict[str, Any]) -> dict[str, Any]:
    """A row of version 0 as one of version 1. ValueError when it is not a row of version 0.

    `sum` stays empty: nothing guards the last row of such a ledger but a head that somebody kept.
    """
    if row.keys() != _FIELDS_V0:
        raise ValueError(f"expected the fields {sorted(_FIELDS_V0)}, found {sorted(row)}")
    upgraded = {key: value for key, value in row.items() if key != "actor"}
    upgraded |= {"v": 1, "who": row["actor"], "sum": ""}
    if row["kind"] == "planned":
        upgraded["detail"] = _planned_v0(row["detail"])
    return upgraded


def _planned_v0(detail: dict[str, Any]) -> dict[str, Any]:
    """Version 0 bound the documents alone: what it did not bind is unknown, not changed."""
    return {
        "layout": 1,
        "root": {"id": detail["root_id"], "digest": None},
        "files": detail["files"],
        "frozen": detail.get("frozen", {}),
        "lineage": None,
    }


UPGRADES = {0: upgrade_row_v0}
"""version -> the step to the next"""
