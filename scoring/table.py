"""The cells table: one row a bundle, exactly the columns of `scoring.columns`; Parquet with units and meanings inside.

Rules:
1. A row is made from the files of a bundle alone, through readers that check what they read.
2. Unknown is null. Money is exact: a decimal text in a row, decimal128 in Parquet.
3. pyarrow is imported where a table is written, and nowhere at import.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import digest_file
from cells.evidence.files import read_regular
from scoring.columns import COLUMNS, NAMES, Column

TABLE_VERSION = 1
_DECIMAL_DIGITS, _DECIMAL_SCALE = 38, 12


def cell_row(bundle_root: Path) -> dict[str, Any]:
    """The row of one attempt's directory, published or whole in its stage. EvidenceError for what cannot be read."""
    read = _Reader(bundle_root)
    spec, seal = read.document("start/spec.json"), read.document("live/SEAL.json")
    facts = (seal or {}).get("facts") or {}
    row = dict.fromkeys(NAMES)
    row |= _identity(read, spec or {})
    row |= _outcome(read, facts)
    row |= _usage(facts)
    row |= _times(read, facts)
    row |= _machine(read, facts)
    row |= _patch(read)
    return row


def write_table(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write rows as Parquet. EvidenceError for a column that the table does not have, or a value of the wrong type."""
    import pyarrow.parquet as pq

    pq.write_table(rows_table(rows, str(path)), path, compression="zstd")


def rows_table(rows: Iterable[Mapping[str, Any]], name: str) -> Any:
    """Rows as an Arrow table of the one schema. EvidenceError, which names the table, as `write_table` does."""
    import pyarrow as pa

    checked = [_checked(row) for row in rows]
    try:
        return pa.Table.from_pylist(checked, schema=arrow_schema())
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise EvidenceError(f"{name}: a row does not fit the table: {error}") from error


def arrow_schema() -> Any:
    """The Arrow schema: units and meanings stand in each field's metadata, the version in the schema's."""
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "digest": pa.string(),
        "count": pa.int64(),
        "number": pa.float64(),
        "flag": pa.bool_(),
        "decimal": pa.decimal128(_DECIMAL_DIGITS, _DECIMAL_SCALE),
        "list": pa.list_(pa.string()),
    }
    fields = [
        pa.field(column.name, types[column.kind], metadata={"unit": column.unit, "meaning": column.meaning})
        for column in COLUMNS
    ]
    return pa.schema(fields, metadata={"assay.table": "cells", "assay.version": str(TABLE_VERSION)})


class _Reader:
    def __init__(self, root: Path) -> None:
        self.root = root

    def document(self, name: str) -> dict[str, Any] | None:
        """A JSON object of the bundle; None when it is not there."""
        path = self.root / name
        if not path.exists():
            return None
        try:
            document = json.loads(read_regular(path))
        except ValueError as error:
            raise EvidenceError(f"{path}: not JSON ({error})") from error
        if not isinstance(document, dict):
            raise EvidenceError(f"{path}: expected an object")
        return document


def _identity(read: _Reader, spec: dict[str, Any]) -> dict[str, Any]:
    meta, session = read.document("run_meta.json") or {}, read.document("start/session.json") or {}
    task = read.document("provenance/task.json") or {}
    arm = spec.get("arm") or {}
    model = arm.get("model") or {}
    manifest = read.root / "manifest.json"
    return {
        "study": meta.get("study"),
        "cell_id": meta.get("cell_id") or session.get("cell_id"),
        "attempt": meta.get("attempt") or session.get("attempt"),
        "task": spec.get("task"),
        "repository": task.get("repository"),
        "arm": arm.get("name"),
        "harness": arm.get("harness"),
        "model": model.get("model") or model.get("name"),
        "input_limit": arm.get("input_limit"),
        "sample": spec.get("sample"),
        "order": meta.get("order"),
        "started_at": session.get("at"),
        "runtime_sha256": meta.get("runtime_sha256"),
        "bundle_sha256": digest_file(manifest) if manifest.exists() else None,
    }


def _outcome(read: _Reader, facts: dict[str, Any]) -> dict[str, Any]:
    result, verify = read.document("post/score/score_result.json") or {}, read.document("post/verify.json") or {}
    contaminated = result.get("contaminated")
    f2p, p2p = result.get("f2p") or {}, result.get("p2p") or {}
    meta = read.document("run_meta.json") or {}
    return {
        "outcome": result.get("outcome") or meta.get("outcome"),
        "ended": facts.get("ended"),
        "patch": result.get("patch"),
        "verdict": result.get("verdict") or verify.get("verdict"),
        "reason": result.get("reason") or verify.get("reason"),
        "resolved": result.get("resolved"),
        "verification": verify.get("version"),
        "f2p_passed": f2p.get("passed"),
        "f2p_total": f2p.get("total"),
        "f2p_fraction": _quotient(f2p, result.get("reward")),
        "p2p_passed": p2p.get("passed"),
        "p2p_total": p2p.get("total"),
        "contaminated": bool(contaminated["leaks"] or contaminated["noise"]) if contaminated else None,
    }


def _quotient(counted: dict[str, Any], reward: str | None) -> float | None:
    """The fraction of a count; of a script's verdict it is the reward."""
    if reward is not None:
        above, _, below = reward.partition("/")
        return int(above) / int(below or 1)
    if not counted:
        return None
    return counted["passed"] / counted["total"] if counted["total"] else 0.0


def _usage(facts: dict[str, Any]) -> dict[str, Any]:
    totals = facts.get("budget") or {}
    names = ("turns", "requests", "input_tokens", "cached_tokens", "output_tokens", "cost", "currency")
    return {name: totals.get(name) for name in names}


def _times(read: _Reader, facts: dict[str, Any]) -> dict[str, Any]:
    meta, verify = read.document("run_meta.json") or {}, read.document("post/verify.json") or {}
    timings = facts.get("timings") or {}
    phases = meta.get("phase_s") or {}
    return {
        "wall_s": round(sum(phases.values()), 6) if phases else None,
        "active_s": timings.get("active_s"),
        "run_s": timings.get("run_s"),
        "verify_s": verify.get("duration_s"),
    }


def _machine(read: _Reader, facts: dict[str, Any]) -> dict[str, Any]:
    summary = (read.document("post/noise.json") or {}).get("summary") or {}
    counters = facts.get("counters") or {}

    def counter(name: str) -> Any:
        return counters.get(name) if counters.get(name) is not None else summary.get(name)

    oom = counter("oom_kills")
    return {
        "cpu_s": counter("cpu_s"),
        "memory_peak_mb": counter("memory_peak_mb"),
        "cpu_throttled_s": counter("throttled_s"),
        "oom_kills": None if oom is None else int(oom),
        "host_load": summary.get("host_load_per_core"),
        "exposure": facts.get("exposure"),
    }


def _patch(read: _Reader) -> dict[str, Any]:
    gate = read.document("post/gate.json") or {}
    return {
        "patch_bytes": gate.get("patch_bytes"),
        "patch_files": (gate.get("counts") or {}).get("kept"),
        "patch_sha256": gate.get("patch"),
    }


def _checked(row: Mapping[str, Any]) -> dict[str, Any]:
    unknown = row.keys() - set(NAMES)
    if unknown:
        raise EvidenceError(f"a row has columns that the cells table does not have: {', '.join(sorted(unknown))}")
    return {column.name: _value(column, row.get(column.name)) for column in COLUMNS}


def _value(column: Column, value: Any) -> Any:
    if column.kind != "decimal" or value is None:
        return value
    try:
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-_DECIMAL_SCALE))
    except ArithmeticError as error:
        raise EvidenceError(f"column {column.name}: expected a decimal, found {value!r}") from error
