"""What `prune` keeps: recipes of tasks and of the software of a study's harnesses."""

from __future__ import annotations

import json
from pathlib import Path

from cells.design.study_file import load_study
from flows.freezing import freeze_study
from flows.needed import needed_recipes
from flows.planning import draft_plan
from launchers.base_image import load_recipe
from launchers.layers.recipe import load_layer_recipe
from tests.e2e.conftest import write_task

STUDY = """
[study]
name = "needs"
seed = 1
tasks = ["tasks/*"]
[models.fixed]
provider = "scripted"
script = "scripts/"
[arms.real]
harness = "codex"
model = "fixed"
"""


def test_the_layers_of_a_studys_harnesses_are_needed_and_no_other(tmp_path: Path) -> None:
    studies = tmp_path / "studies"
    assert needed_recipes(studies) == {load_recipe().sha256}
    write_task(tmp_path / "tasks", "calc-1")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "calc-1.jsonl").write_text(json.dumps({"content": "done"}) + "\n")
    (tmp_path / "study.toml").write_text(STUDY)
    plan = freeze_study(draft_plan(load_study(tmp_path / "study.toml")), studies).plan
    expected = {load_recipe().sha256, load_layer_recipe("codex").sha256, plan.tasks[0].recipe_sha256}
    assert needed_recipes(studies) == expected
