"""The files of start/: what they say, and what they never hold."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cells.artifacts import CONTRACT
from cells.attempt import LiveAttempt
from cells.design.cell import ArmContent, CellSpec
from cells.design.study_model import TighterLimits
from cells.evidence.digest import digest_bytes, digest_json
from cells.sandbox import ContainerSpec
from cells.tasks.frozen import LiveTask
from cells.tasks.image import TaskImage
from launchers.environment import orders_of
from launchers.harnesses import check_settings, harness
from launchers.live_request import LiveRequest
from launchers.mounts import CellVolumes, agent_spec
from launchers.specimen import LIMITS
from launchers.start_files import StartFacts, without_credentials, write_start

MODEL = {"name": "m", "provider": "openai", "base_url": "https://me:secret@host:8/v1?k=v#f", "api_key_env": "KEY_NAME"}


def facts(tmp_path: Path, **more: Any) -> StartFacts:
    arm = ArmContent("arm", "command", MODEL, 4096, check_settings("command", {"command": ["sh", "-c", "a 'b'"]}))
    spec = CellSpec("study", "t", "sha256:t", "sha256:r", arm, LIMITS, 2)
    image = TaskImage("t", "sha256:1", "sha256:r", "/workspace", "hc", "ht", "bc", "bt")
    task = LiveTask("t", b"Mend it.\n", "/workspace", TighterLimits(), ())
    request = LiveRequest(spec, task, image, "a003", tmp_path / "a", **more)
    container: ContainerSpec = agent_spec(request, CellVolumes("v", None), tmp_path / "gw")
    kind = harness("command")
    engine = {"name": "docker", "version": "1", "runtime": "runc", "process": {"pid": 7}}
    return StartFacts(
        request, kind, orders_of(request, kind), container, "c0ffee", engine, "1.2.b.n", "2026-11-30T00:00:00Z"
    )


@pytest.fixture
def start(tmp_path: Path) -> Path:
    attempt = LiveAttempt.create(tmp_path / "a")
    write_start(attempt, facts(tmp_path / "other"))
    return attempt.root / "start"


def test_every_required_file_of_the_start_is_written(start: Path) -> None:
    written = {f"start/{path.relative_to(start)}" for path in start.rglob("*") if path.is_file()}
    required = [row for row in CONTRACT.required() if row.pattern.startswith("start/") and "SEAL" not in row.pattern]
    assert all(any(row.matcher.matches(name) for name in written) for row in required)


def test_the_spec_is_the_cells_identity(start: Path, tmp_path: Path) -> None:
    spec = json.loads((start / "spec.json").read_bytes())
    assert digest_json(spec) == facts(tmp_path).request.spec.cell_id
    assert json.loads((start / "reservation.json").read_bytes())["cell_id"] == digest_json(spec)


def test_the_plan_binds_what_the_attempt_was_made_from(start: Path) -> None:
    plan = json.loads((start / "plan.json").read_bytes())
    assert plan["binds"]["prompt_sha256"] == digest_bytes((start / "prompt.txt").read_bytes())
    assert plan["binds"]["image_id"] == "sha256:1"
    assert plan["stages"][0] == {"after": [], "stage": "prepare"} and plan["stages"][-1]["stage"] == "publish"


def test_the_manifest_can_be_read_by_a_shell(start: Path) -> None:
    lines = (start / "run_manifest.env").read_text().splitlines()
    (command,) = [line for line in lines if line.startswith("LAUNCH_COMMAND=")]
    (value,) = shlex.split(command.partition("=")[2])
    assert shlex.split(value) == ["sh", "-c", "a 'b'"]
    assert {"LAUNCH_IMAGE=sha256:1", "LAUNCH_USER=65532:65532", "ASSAY_WORKDIR=/workspace"} <= set(lines)
    assert (start / "container.id").read_text() == "c0ffee\n"


def test_the_session_tells_provenance_and_nothing_of_the_engines_process(start: Path) -> None:
    session = json.loads((start / "session.json").read_bytes())
    assert session["engine"] == {"name": "docker", "version": "1", "runtime": "runc"}
    assert session["provenance"]["context_size"] == 4096 and session["provenance"]["container_runtime"] == "runc"
    assert (session["attempt"], session["sample"], session["harness"]) == ("a003", 2, "command")


def test_a_key_is_named_and_a_url_loses_its_user(start: Path) -> None:
    server = json.loads((start / "server_meta.json").read_bytes())
    assert server["model"]["api_key_env"] == "KEY_NAME" and server["model"]["base_url"] == "https://host:8/v1"
    assert without_credentials(None) is None


def test_the_contract_in_force_is_kept_with_the_attempt(start: Path) -> None:
    rows = json.loads((start / "contracts/contract.json").read_bytes())["rows"]
    assert len(rows) == len(CONTRACT.rows)


def test_a_cell_without_a_model_has_no_server(tmp_path: Path) -> None:
    given = facts(tmp_path / "other")
    arm = replace(given.request.spec.arm, model=None)
    request = replace(given.request, spec=replace(given.request.spec, arm=arm))
    attempt = LiveAttempt.create(tmp_path / "a")
    write_start(attempt, replace(given, request=request))
    assert json.loads((attempt.root / "start/server_meta.json").read_bytes())["model"] is None
