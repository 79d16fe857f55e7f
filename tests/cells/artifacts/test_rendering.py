"""The manual's page, the terminal table and the JSON say what the rows say."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from cells.artifacts import CONTRACT, Role, Scope
from cells.artifacts.rendering import as_markdown, as_text, contract_document, tree
from flows.cli.contract import command

PAGE = Path(__file__).parents[3] / "docs/contract.md"


def test_the_page_of_the_manual_is_the_one_that_the_table_gives() -> None:
    assert PAGE.read_text() == as_markdown(CONTRACT), "run: assay contract --format markdown > docs/contract.md"


def test_every_row_stands_in_every_form() -> None:
    page, text, document = as_markdown(CONTRACT), as_text(CONTRACT), contract_document(CONTRACT)
    assert len(document["rows"]) == len(text.splitlines()) - 1 == len(CONTRACT.rows)
    for row in CONTRACT:
        assert f"`{row.pattern}`" in page
        assert row.pattern in text


def test_json_holds_grants_and_conditions_by_role() -> None:
    (trace,) = [row for row in contract_document(CONTRACT)["rows"] if row["pattern"] == "live/trace.jsonl"]
    assert (trace["context"], trace["detector"], trace["audit"]) == ("conditional", "conditional", "yes")
    assert trace["conditions"]["detector"] == ["named_fields", "prefix_only"]
    assert trace["ready"] == ["live-prefix"]


def test_the_tree_draws_every_file_once() -> None:
    drawn = tree(CONTRACT, Scope.ATTEMPT).splitlines()
    assert drawn.count("start/") == drawn.count("live/") == drawn.count("post/") == 1
    assert "  score/" in drawn and "    preds.json *" in drawn


def test_the_command_prints_one_json_document() -> None:
    ran = CliRunner().invoke(command, ["--json"])
    assert ran.exit_code == 0
    assert {role.value for role in Role} <= set(json.loads(ran.stdout)["rows"][0])


def test_the_command_prints_the_row_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "start").mkdir()
    (tmp_path / "post").mkdir()
    verdict = tmp_path / "post/verdict.txt"
    verdict.write_text("resolved\n")
    ran = CliRunner().invoke(command, ["--check", str(verdict)])
    assert "written by scorer, ready post-run" in ran.stdout
    assert "read by audit, scoring" in ran.stdout
