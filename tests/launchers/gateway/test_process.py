"""The gateway process: private, fed with keys by name only, gone when its parent is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cells.errors import EnvironmentFault, InfraFailure, InputFileError, UsageError
from launchers.gateway.client import GatewayProcess

PARENT = """
import sys, time
from pathlib import Path
from launchers.gateway.client import GatewayProcess
gateway = GatewayProcess.start(Path(sys.argv[1]), [], {"PATH": "/usr/bin:/bin"})
print(gateway.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def short() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="agp", dir="/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.mark.fault
def test_it_ends_when_its_parent_is_killed(short: Path) -> None:
    root = str(Path(__file__).parents[3])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(short / "run")], stdout=subprocess.PIPE, env={"PYTHONPATH": root}, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the gateway outlived its parent"
        time.sleep(0.02)


def test_its_directory_is_private_and_its_environment_has_named_keys_only(short: Path) -> None:
    environment = {"A_KEY": "secret-a-0123456789", "B_KEY": "secret-b-0123456789", "PATH": "/usr/bin:/bin"}
    with GatewayProcess.start(short / "run", ["A_KEY"], environment) as gateway:
        assert (short / "run").stat().st_mode & 0o777 == 0o700
        assert (short / "run/control.sock").stat().st_mode & 0o777 == 0o600
        given = Path(f"/proc/{gateway.pid}/environ").read_bytes()
        assert b"A_KEY" in given
        assert b"B_KEY" not in given
        assert b"secret" not in Path(f"/proc/{gateway.pid}/cmdline").read_bytes()
    assert b"secret" not in (short / "run/gateway.log").read_bytes()


def test_a_key_that_is_not_set_is_named(short: Path) -> None:
    with pytest.raises(EnvironmentFault, match="MISSING_KEY: a model names this key"):
        GatewayProcess.start(short / "run", ["MISSING_KEY"], {})


def test_a_model_whose_key_the_gateway_was_not_given_is_refused(bench: Any) -> None:
    model = {"name": "m", "provider": "openai", "base_url": "http://h/v1", "model": "m", "api_key_env": "OTHER_KEY"}
    with pytest.raises(UsageError, match="the key OTHER_KEY is not in the gateway's environment"):
        bench.cell(model)


def test_an_unknown_provider_is_refused_with_what_there_is(bench: Any) -> None:
    with pytest.raises(
        UsageError, match="provider 'other' is not known; there are anthropic, openai, replay, scripted"
    ):
        bench.cell({"name": "m", "provider": "other"})


def test_a_script_with_an_unknown_key_is_refused_with_its_line(bench: Any) -> None:
    with pytest.raises((UsageError, InputFileError), match=r"script\d+\.jsonl:2: contents: Extra inputs"):
        bench.scripted([{"content": "x"}, {"contents": "y"}])


def test_a_cell_is_open_once(bench: Any) -> None:
    cell = bench.scripted([{"content": "x"}])
    with pytest.raises(UsageError, match="is open already"):
        bench.gateway.ask("open", cell=_document(cell))
    cell.session.close()
    with pytest.raises(UsageError, match="is not open"):
        cell.session.status()


def _document(cell: Any) -> dict[str, Any]:
    model = {"provider": "scripted"}
    return {"key": cell.session.key, "attempt_root": str(cell.root), "model": model, "limits": _limits()}


def _limits() -> dict[str, Any]:
    names = ["wall_s", "memory_mb", "cpus", "disk_mb", "pids", "verify_s"]
    unset = dict.fromkeys(["turns", "requests", "total_tokens", "cost"])
    return {"clock": "active", "disk_backing": "memory", **dict.fromkeys(names, 1), **unset}


def test_a_socket_path_that_is_too_long_is_refused_with_what_to_do(bench: Any) -> None:
    directory = Path(tempfile.mkdtemp(prefix="a" * 60, dir="/tmp"))
    long = directory / ("r" * 20)
    with GatewayProcess.start(long, [], {"PATH": "/usr/bin:/bin"}) as gateway:
        own = type(bench)(gateway, directory)
        with pytest.raises(EnvironmentFault, match="use a shorter run directory"):
            own.scripted([{"content": "x"}])
    shutil.rmtree(directory)


def test_a_gateway_that_is_gone_loses_its_cells(short: Path, bench: Any) -> None:
    gateway = GatewayProcess.start(short / "run", [], {"PATH": "/usr/bin:/bin"})
    own = type(bench)(gateway, short)
    cell = own.scripted([{"content": "x"}])
    os.kill(gateway.pid, 9)
    with pytest.raises(InfraFailure, match="gateway_lost"):
        cell.session.status()
    gateway.stop()
    gateway.stop()


def test_stopping_it_closes_open_records(short: Path, bench: Any) -> None:
    with GatewayProcess.start(short / "run", [], {"PATH": "/usr/bin:/bin"}) as gateway:
        cell = type(bench)(gateway, short).scripted([{"content": "x"}])
        cell.chat([{"role": "user", "content": "x"}])
    assert cell.wire().rows[-1].kind == "close"
    cell.assert_derived_alike()


def test_what_is_said_on_the_control_socket_is_checked(bench: Any) -> None:
    for question in ({"op": "unknown"}, {"op": "open", "cell": {}}, {"op": "status"}):
        with pytest.raises((InfraFailure, UsageError)):
            bench.gateway.ask(question.pop("op"), **question)
    assert bench.gateway.endpoints() is not None
