"""Whole live cells on a real engine with a real gateway: the reference harness, clients over TCP, controls, limits."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cells.attempt import open_sealed
from cells.errors import InfraFailure, Interrupted
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.gateway.client import GatewayProcess
from launchers.labels import this_process
from launchers.specimen import LIMITS, SpecimenCells, files_left

pytestmark = pytest.mark.engine
MODEL = {"name": "fixed", "provider": "scripted", "script": "scripts/"}
FIXED = '#!/bin/sh\necho "hello $1"\n'
CLIENT = """
import json, os, urllib.request
base = os.environ["OPENAI_BASE_URL"]
body = json.dumps({"model": os.environ["ASSAY_MODEL"], "messages": [{"role": "user", "content": "hi"}]}).encode()
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
with urllib.request.urlopen(urllib.request.Request(base + "/chat/completions", body, headers)) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"])
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess.start(tmp_path_factory.mktemp("gw")) as process:
        yield process


@pytest.fixture
def cells(specimens: SpecimenCells, gateway: GatewayProcess) -> SpecimenCells:
    return replace(specimens, gateway=gateway)


def script(folder: Path, *replies: dict[str, Any]) -> Path:
    """A script of the scripted provider."""
    path = folder / "script.jsonl"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return path


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}], "usage": {"input": 10, "output": 5}}


def test_the_reference_harness_mends_the_task_and_everything_is_on_record(cells: SpecimenCells, tmp_path: Path) -> None:
    replies = script(
        tmp_path,
        call("read", path="greet.sh"),
        call("write", path="greet.sh", content=FIXED),
        call("bash", command="sh greet.sh you"),
        call("done", summary="It greets."),
    )
    with closing(cells.run("reference", model=MODEL, script=replies)) as result:
        facts = result.sealed.facts
        assert (facts["ended"], facts["exit_code"]) == ("completed", 0)
        assert files_left(result)["greet.sh"] == FIXED.encode()
        assert (facts["budget"]["turns"], facts["budget"]["requests"]) == (4, 4)
        rows = [json.loads(line) for line in result.sealed.read("live/trace.jsonl", "audit").splitlines()]
        assert [row["event"] for row in rows].count("turn") == 4
        assert result.sealed.seal["findings"] == []
        assert rows[0]["event"] == "session_start" and rows[0]["model"] == "scripted"
        told = [
            json.loads(line) for line in result.sealed.read("live/harness/reference.trace.jsonl", "audit").splitlines()
        ]
        assert [row["event"] for row in told].count("turn") == 4
        assert result.sealed.read("live/fingerprint.txt", "audit").startswith(b"sha256:")
        assert open_sealed(result.sealed.root).seal == result.sealed.seal


def test_a_client_that_speaks_tcp_reaches_the_model_through_the_forwarder(cells: SpecimenCells, tmp_path: Path) -> None:
    replies = script(tmp_path, {"content": "hello from the host"})
    settings = {"command": ["python3", "-c", CLIENT]}
    with closing(cells.run("command", settings, model=MODEL, script=replies)) as result:
        assert result.sealed.read("live/harness.stdout.log", "audit") == b"hello from the host\n"
        assert result.sealed.facts["budget"]["requests"] == 1
        assert result.sealed.facts["exposure"] == ["harness_files", "gateway_socket"]


@pytest.mark.attack
def test_a_killed_forwarder_is_a_broken_sandbox(cells: SpecimenCells, tmp_path: Path) -> None:
    replies = script(tmp_path, {"content": "never asked"})
    settings = {"command": ["sh", "-c", "pkill -9 assay-forward; sleep 60"]}
    with closing(cells.run("command", settings, model=MODEL, script=replies)) as result:
        assert (result.sealed.facts["ended"], result.sealed.facts["detail"]) == ("sandbox_broken", "forwarder_killed")


def test_a_turn_limit_is_how_it_ended_whatever_the_harness_says(cells: SpecimenCells, tmp_path: Path) -> None:
    replies = script(tmp_path, call("bash", command="true") | {"repeat": True})
    limits = replace(LIMITS, turns=3)
    with closing(cells.run("reference", model=MODEL, script=replies, limits=limits)) as result:
        assert result.sealed.facts["ended"] == "turn_limit" and result.sealed.facts["exit_code"] == 0
        assert result.sealed.facts["budget"]["turns"] == 3


def test_a_script_that_ends_too_early_loses_the_cell(cells: SpecimenCells, tmp_path: Path, engine: Engine) -> None:
    replies = script(tmp_path, call("bash", command="true"))
    with pytest.raises(InfraFailure, match="script_exhausted"):
        cells.run("reference", model=MODEL, script=replies)
    assert ours(engine) == []


@pytest.mark.fault
def test_a_gateway_that_dies_loses_the_cell_and_the_attempt_is_sealed_as_lost(
    specimens: SpecimenCells, tmp_path: Path, engine: Engine
) -> None:
    replies = script(tmp_path, call("bash", command="sleep 60"))
    with GatewayProcess.start(tmp_path / "gw") as gateway:
        cells, phases = replace(specimens, gateway=gateway), []

        def kill(phase: str) -> None:
            phases.append(phase)
            if phase == "run":
                os.kill(gateway.pid, signal.SIGKILL)

        with pytest.raises(InfraFailure, match="gateway_lost"):
            cells.run("reference", model=MODEL, script=replies, on_phase=kill)
    assert phases == ["prepare", "launch", "run"] and ours(engine) == []
    newest = max(specimens.root.glob("attempt-*"), key=lambda path: path.stat().st_ctime_ns)
    assert open_sealed(newest).facts["ended"] == "infra_lost"


def test_the_oracle_leaves_the_gold_state_and_nop_the_base(cells: SpecimenCells) -> None:
    with closing(cells.run("oracle")) as result:
        assert files_left(result)["greet.sh"] == FIXED.encode()
        assert result.sealed.facts["control"] == "oracle" and result.sealed.facts["budget"] is None
    with closing(cells.run("nop")) as result:
        assert files_left(result)["greet.sh"] == b"#!/bin/sh\necho hello\n"


def test_a_stop_ends_a_running_cell_and_leaves_nothing(cells: SpecimenCells, engine: Engine) -> None:
    stop = threading.Event()
    settings = {"command": ["sleep", "600"]}
    with pytest.raises(Interrupted):
        cells.run("command", settings, stop=stop, on_phase=lambda phase: stop.set() if phase == "run" else None)
    assert ours(engine) == []


@pytest.mark.fault
@pytest.mark.parametrize("lost", ["agent", "collector"])
def test_a_container_that_vanishes_loses_the_cell_and_is_no_outcome(
    cells: SpecimenCells, engine: Engine, lost: str
) -> None:
    def remove(phase: str) -> None:
        if phase == "run":
            (found,) = engine.api.containers(filters={"label": [f"assay.role={lost}", owner()]})
            engine.api.remove_container(found["Id"], force=True)

    with pytest.raises(InfraFailure) as caught:
        cells.run("command", {"command": ["sleep", "2"], "gather": ["*"]}, on_phase=remove)
    assert caught.value.reason == ("engine_lost" if lost == "agent" else "collector_lost")
    assert ours(engine) == []


@pytest.mark.fault
def test_somebody_elses_kill_loses_the_cell(cells: SpecimenCells, engine: Engine) -> None:
    def kill(phase: str) -> None:
        if phase == "run":
            (found,) = engine.api.containers(filters={"label": ["assay.role=agent", owner()]})
            engine.api.kill(found["Id"])

    with pytest.raises(InfraFailure) as caught:
        cells.run("command", {"command": ["sleep", "60"]}, on_phase=kill)
    assert caught.value.reason == "killed" and ours(engine) == []


def test_a_cell_on_a_file_backed_volume(engine: Engine, cells: SpecimenCells, tmp_path: Path) -> None:
    on_disk = replace(cells, sandboxes=DockerSandboxes(engine, tmp_path))
    with closing(on_disk.shell("df -m . | tail -1; ls -A; echo x > new", disk_backing="file")) as result:
        assert result.sealed.facts["ended"] == "completed"
        assert b"lost+found" not in result.sealed.read("live/harness.stdout.log", "audit")
        assert files_left(result)["new"] == b"x\n"
    assert list(tmp_path.glob("*.ext4")) == []


def test_after_everything_nothing_of_ours_is_left(cells: SpecimenCells, engine: Engine) -> None:
    with closing(cells.run("nop")):
        assert len(ours(engine)) == 2, "the collector and its volume"
    assert ours(engine) == []


def owner() -> str:
    """The label of what this test process made."""
    return f"assay.owner={this_process().label()}"


def ours(engine: Engine) -> list[str]:
    """Containers and volumes that this process made and that are still there."""
    only = {"label": [owner(), "assay.study=specimen"]}
    containers = [item["Id"] for item in engine.api.containers(all=True, filters=only)]
    return containers + [item["Name"] for item in engine.api.volumes(filters=only)["Volumes"] or []]
