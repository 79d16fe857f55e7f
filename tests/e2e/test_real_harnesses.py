"""Real programs as harnesses: each in a cell without network, against the gateway with a scripted model, on a small
task, to a graded result. Their layers are built from the lock files by this machine's package clients.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cells.evidence.digest import digest_bytes
from tests.e2e.conftest import Assay, write_task

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(900)]
FIX = "sed -i 's/a - b/a + b/' calc.py"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
USAGE = {"input": 100, "output": 10}
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="its package comes by npm, which is not here")

STUDY = """
[study]
name = "{name}"
seed = 3
tasks = ["tasks/*"]
[limits]
wall_s = 240
{limits}
memory_mb = 1024
disk_mb = 64
[models.fixed]
provider = "scripted"
script = "scripts/"
[arms.real]
harness = "{harness}"
model = "fixed"
settings = {{ {settings} }}
[controls]
oracle = false
nop = false
"""


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """A reply that asks for one tool call."""
    return {"tool_calls": [{"name": name, "arguments": arguments}], "usage": USAGE}


SAID = {"content": "add adds now.", "usage": USAGE}


class RealRun:
    """A study of one cell, run to its end."""

    def __init__(self, assay: Assay, folder: Path, harness: str, script: list[Any], **more: str) -> None:
        self.assay, self.harness = assay, harness
        self.name = f"real-{harness}-{digest_bytes(str(folder).encode())[-6:]}"
        write_task(folder / "tasks", "calc-1")
        (folder / "scripts").mkdir()
        lines = [json.dumps(row) for row in script]
        (folder / "scripts" / "calc-1.jsonl").write_text("\n".join([*lines, ""]))
        study = folder / "study.toml"
        study.write_text(STUDY.format(**{"name": self.name, "harness": harness, "settings": "", "limits": "", **more}))
        self.code, out, self.err = assay.run("run", study, "--json")
        self.state: Any = json.loads(out) if out else None
        found = sorted((assay.studies / self.name / "cells").glob("*/attempts/*"))
        assert found, self.err
        self.attempt = found[-1]

    def document(self, name: str) -> Any:
        """A JSON file of the attempt."""
        return json.loads((self.attempt / name).read_bytes())

    @property
    def seal(self) -> Any:
        return self.document("live/SEAL.json")["facts"]

    def said(self) -> str:
        """What to print when it went wrong."""
        logs = [self.attempt / "live" / f"harness.{stream}.log" for stream in ("stdout", "stderr")]
        return "\n".join([self.err, *(log.read_text("utf-8", "replace")[-3000:] for log in logs if log.exists())])


def resolved_by_itself(run: RealRun, protocol: str, turns: int, record: str) -> None:
    """The cell is resolved, in so many turns of the protocol; record and software are in the evidence."""
    assert run.code == 0, run.said()
    assert run.state["verdicts"]["resolved"] == 1, run.said()
    wire = [json.loads(line) for line in (run.attempt / "live" / "wire.jsonl").read_text().splitlines()]
    assert protocol in json.dumps(wire)
    assert run.seal["budget"]["turns"] == turns
    assert (run.attempt / "live" / "harness" / record).stat().st_size > 0
    layers = run.seal["layers"]
    assert [row["name"] for row in layers] == [run.harness]
    assert run.document("provenance/layers.json")["layers"] == layers == run.document("start/session.json")["layers"]
    assert run.assay.json("verify", run.attempt)["ok"]


def test_mini_swe_agent_solves_a_task_unchanged(assay: Assay, tmp_path: Path) -> None:
    script = [called("bash", command=FIX), called("bash", command=SUBMIT)]
    run = RealRun(assay, tmp_path, "mini-swe-agent", script)
    resolved_by_itself(run, "openai-chat", 2, "mini-swe-agent.traj.json")
    trajectory = run.document("live/harness/mini-swe-agent.traj.json")
    assert trajectory["info"]["exit_status"] == "Submitted"
    assert trajectory["info"]["config"]["model_type"].endswith("LitellmModel")
    assert run.document("live/SEAL.json")["findings"] == []


@needs_npm
def test_claude_code_solves_a_task_unchanged(assay: Assay, tmp_path: Path) -> None:
    script = [called("Bash", command=FIX, description="fix it"), SAID]
    run = RealRun(assay, tmp_path, "claude-code", script)
    resolved_by_itself(run, "anthropic-messages", 2, "claude-code.result.json")
    result = run.document("live/harness/claude-code.result.json")
    assert result["type"] == "result" and not result["is_error"]
    assert result["result"] == SAID["content"]


@needs_npm
def test_codex_solves_a_task_unchanged(assay: Assay, tmp_path: Path) -> None:
    run = RealRun(assay, tmp_path, "codex", [called("exec_command", cmd=FIX), SAID])
    resolved_by_itself(run, "openai-responses", 2, "codex.events.jsonl")
    events = [json.loads(line) for line in (run.attempt / "live/harness/codex.events.jsonl").read_text().splitlines()]
    assert events[-1]["type"] == "turn.completed"


def test_the_step_limit_of_mini_swe_agent_itself_is_an_error_of_the_harness_and_graded(
    assay: Assay, tmp_path: Path
) -> None:
    run = RealRun(assay, tmp_path, "mini-swe-agent", [called("bash", command=FIX)], settings="step_limit = 1")
    assert run.seal["ended"] == "harness_error" and "without submitting" in run.seal["detail"], run.said()
    assert run.document("live/harness/mini-swe-agent.traj.json")["info"]["exit_status"] == "LimitsExceeded"
    assert run.state["verdicts"]["resolved"] == 1  # the fix was there when it stopped


@pytest.mark.parametrize(
    ("harness", "first"),
    [
        ("mini-swe-agent", called("bash", command=FIX)),
        pytest.param("claude-code", called("Bash", command=FIX, description="fix it"), marks=needs_npm),
        pytest.param("codex", called("exec_command", cmd=FIX), marks=needs_npm),
    ],
)
def test_a_limit_of_the_cell_ends_it_in_time_whatever_it_makes_of_the_refusal(
    assay: Assay, tmp_path: Path, harness: str, first: dict[str, Any]
) -> None:
    run = RealRun(assay, tmp_path, harness, [first, SAID], limits="turns = 1")
    assert run.seal["ended"] == "turn_limit", run.said()
    assert run.seal["timings"]["run_s"] < 60  # ten seconds of grace after the refusal, then it is killed
    assert run.state["verdicts"]["resolved"] == 1
