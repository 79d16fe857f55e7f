"""The published types fit what is written, to the key."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from cells.evidence.catalog import rebuild
from cells.evidence.formats import SCHEMAS
from cells.evidence.ledger import Row
from cells.evidence.lifecycle.export import export
from cells.evidence.lifecycle.export_index import INDEX
from cells.evidence.quarantine import quarantine
from cells.evidence.specimen import Specimen, add_attempt, specimen_study


@pytest.fixture
def written(tmp_path: Path) -> dict[str, bytes]:
    """One file of each kind, as Assay writes it."""
    store = specimen_study(tmp_path / "studies", "s", cells=1)
    (unit,) = store.accepted().values()
    with store.writing():
        lost = add_attempt(store, Specimen(task="other", verdict="not_run"))
        kept = quarantine(store, lost.path, "a drill")
    rebuild(store)
    export(store, tmp_path / "bag", bag=True, today=date(2026, 1, 1))
    return {
        "studies_root": (store.root.path / "root.json").read_bytes(),
        "manifest": (store.bundle(unit) / "manifest.json").read_bytes(),
        "run_meta": (store.bundle(unit) / "run_meta.json").read_bytes(),
        "latest": (store.path / "latest.json").read_bytes(),
        "catalog": (store.path / "catalog.json").read_bytes(),
        "policy": (store.path / "policy.json").read_bytes(),
        "quarantine_reason": (store.path / kept).parent.joinpath("reason.json").read_bytes(),
        "export": (tmp_path / "bag/data" / INDEX).read_bytes(),
        "ledger": (store.path / "ledger.jsonl").read_bytes(),
    }


@pytest.mark.requirement(32)
@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_written_file_fits_its_type_and_another_version_does_not(written: dict[str, bytes], name: str) -> None:
    model: type[BaseModel] = SCHEMAS[name]
    model.model_validate_json(written[name])
    with pytest.raises(ValidationError):
        model.model_validate_json(written[name].replace(b'"v":1', b'"v":2'))
    assert "v" in str(model.model_json_schema())


def test_ledger_rows_fit_their_type(written: dict[str, bytes]) -> None:
    rows = [TypeAdapter(Row).validate_json(line) for line in written["ledger"].splitlines()]
    assert [row.seq for row in rows] == list(range(len(rows)))
