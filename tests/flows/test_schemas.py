"""Exported schemas are those of the code, and what Assay writes is valid under them."""

from __future__ import annotations

import json
from pathlib import Path

from flows.schemas import schemas

EXPORTED = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def test_the_exported_schemas_are_up_to_date() -> None:
    found = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in EXPORTED.iterdir()}
    assert found == json.loads(json.dumps(schemas())), "run `python -m flows.schemas`"


def test_the_examples_are_valid_study_files_under_the_exported_schema() -> None:
    import tomllib

    import jsonschema

    schema = json.loads((EXPORTED / "study-file.schema.json").read_text())
    for path in sorted((EXPORTED.parents[1] / "examples").glob("*/study.toml")):
        jsonschema.validate(tomllib.loads(path.read_text()), schema)


def test_unknown_keys_are_refused_by_the_schema_too() -> None:
    assert schemas()["study-file"]["additionalProperties"] is False
    assert schemas()["task-file"]["additionalProperties"] is False
