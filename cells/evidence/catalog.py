"""catalog.json: the listing of a study's units, derived from the ledger; delete it, rebuild it, and the bytes are
the same.

Rules (30-evidence 25, 26):
1. The catalog is a function of the ledger's rows and of nothing else; `derived_from` says of which.
2. It is never authority: a reader that finds it missing, damaged or behind reads the ledger. One that is ahead
   betrays a lost tail.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json
from cells.evidence.fs import FileSystem, read_plain, replace_derived
from cells.evidence.history import History, Unit
from cells.evidence.ledger import LATEST, Chain, Row, latest_document, witness_problems
from cells.evidence.problem import Problem
from cells.evidence.study_store import StudyStore

CATALOG = "catalog.json"
VERSION = 1


def catalog_document(rows: list[Row], head: str | None) -> dict[str, Any]:
    """The content of catalog.json for these rows."""
    history = History.of(rows)
    accepted = set(history.accepted.values())
    return {
        "v": VERSION,
        "derived_from": {"rows": len(rows), "head": head},
        "plan": history.plans[-1].digest if history.plans else None,
        "archived": sorted(history.archived),
        "labels": {subject: sorted(labels) for subject, labels in history.labels.items() if labels},
        "units": [_unit(unit, unit.path in accepted) for _, unit in sorted(history.units.items())],
    }


def rebuild(store: StudyStore) -> bytes:
    """Write catalog.json and latest.json anew from the ledger; the bytes of the catalog."""
    rows, head = store.ledger.rows(), store.ledger.head
    content = canonical_json(catalog_document(rows, head))
    mark = f"{os.getpid()}.{time.monotonic_ns()}"
    replace_derived(store.fs, store.path / CATALOG, content, mark=mark)
    replace_derived(store.fs, store.path / LATEST, canonical_json(latest_document(rows, head)), mark=mark)
    return content


def read_catalog(store: StudyStore) -> dict[str, Any]:
    """The catalog: from its file where that is as new as the ledger, else computed. Writes nothing."""
    rows, head = store.ledger.rows(), store.ledger.head
    try:
        document = json.loads(read_plain(store.fs, store.path / CATALOG))
        if document["v"] == VERSION and document["derived_from"] == {"rows": len(rows), "head": head}:
            return dict(document)
    except (EvidenceError, OSError, ValueError, KeyError, TypeError):
        pass  # derived: missing or damaged is no problem, the ledger says it all
    return catalog_document(rows, head)


def catalog_witness(fs: FileSystem, path: Path, chain: Chain) -> list[Problem]:
    """What the catalog betrays about the ledger (rule 2)."""
    if fs.status(path) is None:
        return []
    try:
        return witness_problems(read_plain(fs, path), CATALOG, chain)
    except EvidenceError as error:
        return [Problem(CATALOG, "unreadable", str(error))]


def _unit(unit: Unit, accepted: bool) -> dict[str, Any]:
    return {
        "path": unit.path,
        "digest": unit.digest,
        "accepted": accepted,
        "superseded_by": unit.superseded_by,
        "withdrawn": unit.withdrawn,
        "quarantined": unit.quarantined,
        "purged": unit.purged,
        "detail": unit.detail,
    }
