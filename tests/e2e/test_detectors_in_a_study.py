"""A study whose arms are watched: notes enter, stops end, and `assay audit` proves every decision from the evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Assay, write_task

pytestmark = pytest.mark.engine
LOOK = {"tool_calls": [{"name": "bash", "arguments": {"command": "cat calc.py"}}], "usage": {"input": 50, "output": 5}}
FIX = {
    "tool_calls": [{"name": "bash", "arguments": {"command": "sed -i 's/a - b/a + b/' calc.py"}}],
    "usage": {"input": 60, "output": 9},
}
DONE = {"tool_calls": [{"name": "done", "arguments": {}}], "usage": {"input": 70, "output": 2}}
STUDY = """
[study]
name = "watched"
seed = 7
tasks = ["tasks/*"]
[limits]
wall_s = 60
memory_mb = 256
disk_mb = 32
[models.fixed]
provider = "scripted"
script = "scripts/"
[arms.plain]
harness = "reference"
model = "fixed"
[arms.noted]
harness = "reference"
model = "fixed"
[arms.noted.detectors.duplicate_call]
action = "note"
[arms.noted.detectors.model_hurdle]
warmup = 4
settings = { hurdle = "the agent only reads" }
[arms.stopped]
harness = "reference"
model = "fixed"
[arms.stopped.detectors.duplicate_call]
action = "stop"
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, assay: Assay) -> dict[str, Any]:
    root: Path = tmp_path_factory.mktemp("watched")
    write_task(root / "tasks", "calc-1")
    (root / "scripts").mkdir()
    asked = {"lane": "detector", "content": "NO", "usage": {"input": 40, "output": 1}, "repeat": True}
    scripts: dict[str, list[Any]] = {
        "calc-1.plain": [LOOK, LOOK, LOOK, FIX, DONE],
        "calc-1.noted": [LOOK, LOOK, LOOK, LOOK, FIX, DONE, asked],
        "calc-1.stopped": [LOOK, LOOK, LOOK, FIX, DONE],
    }
    for name, lines in scripts.items():
        (root / f"scripts/{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "study.toml").write_text(STUDY)
    assay.json("run", root / "study.toml", "--workers", "2")
    return {one["path"].split("--")[1]: one for one in assay.json("audit", "watched")["attempts"]}


def cell(assay: Assay, arm: str) -> Path:
    (root,) = (assay.studies / "watched/cells").glob(f"calc-1--{arm}--*/attempts/a001")
    return root


def test_every_decision_of_every_cell_was_made_again_and_holds(study: dict[str, Any]) -> None:
    assert all(one["ok"] for one in study.values())
    assert {arm: (one["decisions"], one["recomputed"]) for arm, one in study.items()} == {
        "plain": (0, 0),
        "noted": (10, 4),
        "stopped": (3, 3),
    }
    assert study["noted"]["actions"] == {"note": 1}
    assert study["stopped"]["actions"] == {"stop": 1}
    assert {one["boundary"] for one in study.values()} <= {"bwrap", "container", "uid"}


def test_the_note_reached_the_model_and_the_cell_went_on_to_its_fix(study: dict[str, Any], assay: Assay) -> None:
    seal = json.loads((cell(assay, "noted") / "live/SEAL.json").read_bytes())
    assert seal["facts"]["ended"] == "completed"
    assert (cell(assay, "noted") / "post/verdict.txt").read_text().split()[0] == "resolved"
    wire = [json.loads(line) for line in (cell(assay, "noted") / "live/wire.jsonl").read_text().splitlines()]
    noted = [row for row in wire if row.get("notes")]
    assert [row["notes"][0]["first"] for row in noted] == [True, False, False]
    assert all(row["sent"]["digest"] != row["body"]["digest"] for row in noted)


def test_a_stop_is_an_end_of_its_own_and_what_was_there_is_graded(study: dict[str, Any], assay: Assay) -> None:
    seal = json.loads((cell(assay, "stopped") / "live/SEAL.json").read_bytes())
    assert seal["facts"]["ended"] == "stopped_by_controller"
    assert (cell(assay, "stopped") / "post/verdict.txt").read_text().split()[0] == "unresolved"


def test_a_question_to_the_model_is_charged_to_the_cell_that_asked(study: dict[str, Any], assay: Assay) -> None:
    budget = json.loads((cell(assay, "noted") / "live/SEAL.json").read_bytes())["facts"]["budget"]
    asked = (cell(assay, "noted") / "live/llm_hurdle_detector.jsonl").read_text().splitlines()
    own = 50 * 4 + 60 + 70
    assert budget["input_tokens"] == own + 40 * len(asked)


def test_the_study_obeys_the_contract(study: dict[str, Any], assay: Assay) -> None:
    assert assay.json("contract", "--check", assay.studies / "watched") == {"ok": True, "problems": []}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[arms.plain.detectors.no_such]", "arms.plain.detectors.no_such"),
        ("[arms.plain.detectors.no_write]\nsettings = { turn = 3 }", "unknown setting 'turn'"),
        ("[arms.plain.detectors.no_write]\nsettings = { fields = ['result_summary'] }", "never widen"),
        ("[arms.plain.detectors.no_write]\nsettings = { template = '{verdict}' }", "template uses {verdict}"),
    ],
)
def test_a_wrong_detector_is_refused_when_the_study_is_planned(
    assay: Assay, tmp_path: Path, line: str, said: str
) -> None:
    write_task(tmp_path / "tasks", "calc-1")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/calc-1.jsonl").write_text(json.dumps(DONE) + "\n")
    (tmp_path / "study.toml").write_text(STUDY.replace("[arms.noted]", f"{line}\n[arms.noted]", 1))
    code, _, err = assay.run("plan", tmp_path / "study.toml")
    assert code == 2
    assert said in err
    assert "study.toml:" in err
