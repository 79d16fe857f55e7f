"""The one rule that removes most dangers: the host never opens a path that a cell could have written.

Checked by recording every path that the orchestrating process opens, lists, renames or removes while it takes a hostile
cell from its preparation to its score; and every open of the collector, inside its container.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cells.incell.trusted import VOLUME_ROOT
from cells.sandbox import ChannelClosed
from launchers import mounts
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.live_request import LiveTools
from launchers.run_cell import run_live
from launchers.specimen import SpecimenCells

pytestmark = [pytest.mark.engine, pytest.mark.attack]
ROOT = Path(__file__).parents[2]
HOSTILE = """
import os
os.makedirs("record/zz-planted/post")
for name in ("verdict.txt", "zz-planted.log", "post/verdict.txt"):
    open("record/zz-planted/" + name, "w").write("zz-planted")
os.symlink("/etc/hostname", "record/zz-planted/zz-link")
os.mkfifo("record/zz-planted/zz-pipe")
open("greet.sh", "w").write('#!/bin/sh\\necho "hello $1"\\n')
"""
RECORDED_COLLECTOR = """
import os, runpy, sys
def record(event, arguments):
    if event == "open":
        path, mode, flags = arguments[0], arguments[1], arguments[2]
        if not isinstance(path, int):
            os.write(2, (ascii(os.fsdecode(path))[1:-1] + '|%d' % (flags or 0)).encode() + bytes([10]))
sys.addaudithook(record)
sys.argv = [sys.argv[1]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("opens")
    program = Path(__file__).with_name("opens_recorder.py")
    ran = subprocess.run(
        [sys.executable, str(program), str(root), HOSTILE],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    document: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return document


def test_the_recorder_saw_the_orchestrator_work(said: dict[str, Any]) -> None:
    assert said["outcome"] == "completed"
    written = {path for path in said["opened"] if path.startswith(said["root"])}
    assert {f"{said['root']}/start/spec.json", f"{said['root']}/live/SEAL.json"} <= written


def test_no_path_below_the_engines_folder_or_a_containers_root_was_opened(said: dict[str, Any]) -> None:
    forbidden = (said["data_root"] + "/", "/var/lib/docker/", "/var/lib/containerd/")
    assert [path for path in said["opened"] if path.startswith(forbidden)] == []
    assert [path for path in said["opened"] if path.startswith("/proc/") and "/root" in path] == []


def test_no_name_that_the_cell_chose_was_opened_but_as_a_file_of_ours_in_the_gathered_folder(
    said: dict[str, Any],
) -> None:
    planted = [path for path in said["opened"] if "zz-" in path]
    assert planted, "the cell's names did arrive"
    gathered = f"{said['root']}/live/harness/workdir/record/zz-planted"
    assert [path for path in planted if path != gathered and not path.startswith(gathered + "/")] == []
    assert not [path for path in planted if path.endswith(("zz-link", "zz-pipe"))]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpecimenCells]:
    engine = Engine.connect()
    root: Path = tmp_path_factory.mktemp("collector")
    yield SpecimenCells.on(engine, root, DockerSandboxes(engine, root))
    engine.close()


def test_the_collector_opens_nothing_of_the_volume_through_a_link(cells: SpecimenCells) -> None:
    request = cells.request("command", {"command": ["python3", "-c", HOSTILE], "gather": []})
    tools = LiveTools(cells.sandboxes, None, threading.Event(), lambda phase: None)
    result = run_live(request, tools)
    volumes = mounts.CellVolumes(result.collector.volumes[0], None)
    spec = mounts.collector_spec(request, volumes)
    python, *options, program = spec.command
    recorded = cells.sandboxes.create(replace(spec, command=(python, *options, "-c", RECORDED_COLLECTOR, program)))
    try:
        channel = recorded.attach()
        recorded.start()
        channel.send({"type": "gather"}, json.dumps({"files": [{"root": VOLUME_ROOT, "pattern": "**"}]}).encode())
        while channel.receive(time.monotonic() + 60, 32 << 20).type != "gathered":
            pass
        channel.send({"type": "exit"})
        with pytest.raises(ChannelClosed):
            channel.receive(time.monotonic() + 60, 1 << 20)
        lines = channel.stderr.decode().splitlines()  # type: ignore[attr-defined]
    finally:
        recorded.remove()
        result.collector.close()
    opened = [(path, int(flags)) for path, _, flags in (line.rpartition("|") for line in lines)]
    of_the_volume = [one for one in opened if not one[0].startswith("/") or one[0].startswith(VOLUME_ROOT)]
    assert any("zz-planted" in path for path, _ in of_the_volume)
    assert not [path for path, flags in of_the_volume if not flags & os.O_NOFOLLOW]
    assert not [path for path, _ in of_the_volume if "zz-link" in path or "zz-pipe" in path]
    assert not [path for path, _ in opened if path.startswith("/etc/hostname")]
