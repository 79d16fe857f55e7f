"""The eight release pairs of the example, imported for real: the index, the engine, the published counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flows.cli.tasks import command

PAIRS = Path(__file__).parents[2] / "examples" / "releases" / "pairs.toml"


@pytest.mark.full
@pytest.mark.engine
@pytest.mark.timeout(900)
def test_every_pair_reproduces_its_counts_and_passes_its_controls(tmp_path: Path) -> None:
    imported = CliRunner().invoke(command, ["import", "releases", str(PAIRS), "--out", str(tmp_path), "--json"])
    assert imported.exit_code == 0, (imported.output, imported.exception)
    assert [row["state"] for row in json.loads(imported.stdout)["tasks"]] == ["imported"] * 8
    checked = CliRunner().invoke(command, ["check", str(tmp_path), "--json"])
    assert checked.exit_code == 0, (checked.output, checked.exception)
    assert [row["ok"] for row in json.loads(checked.stdout)["tasks"]] == [True] * 8
