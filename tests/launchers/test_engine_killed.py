"""An engine that is killed while cells run: the cell is lost, never an outcome, and nothing stays (30-evidence D).

A private engine is started for these tests, with sockets and state of its own; the machine's engine is not touched.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cells.errors import EnvironmentFault, InfraFailure
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.images import open_base_image
from launchers.specimen import SpecimenCells

pytestmark = [pytest.mark.engine, pytest.mark.fault, pytest.mark.full]


@dataclass
class PrivateEngine:
    """A dockerd of our own under `root`."""

    root: Path
    live_restore: bool
    process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"unix://{self.root}/d.sock"

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = ["dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", f"--host={self.host}"]
        command += [f"--data-root={self.root}/data", f"--exec-root={self.root}/exec", f"--pidfile={self.root}/pid"]
        command += [f"--live-restore={str(self.live_restore).lower()}", "--cgroup-parent=/docker"]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while True:
            try:
                Engine.connect(self.host).close()
                return
            except EnvironmentFault:
                assert time.monotonic() < deadline and self.process.poll() is None, (self.root / "log").read_text()
                time.sleep(0.1)

    def kill(self, number: int) -> None:
        """Signal it and wait for its end; a containerd that it leaves would keep the next one from starting."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)
        _end_all(f"{self.root}/exec/containerd/containerd.toml")
        (self.root / "exec/containerd/containerd.pid").unlink(missing_ok=True)
        (self.root / "pid").unlink(missing_ok=True)

    def end(self) -> None:
        """Everything that it started goes."""
        if self.process is not None and self.process.poll() is None:
            self.kill(signal.SIGTERM)
        _end_all(str(self.root))
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((one for one in mounts if one.startswith(str(self.root))), reverse=True):
            subprocess.run(["umount", "-l", mount], check=True)
        shutil.rmtree(self.root)


def _end_all(word: str) -> None:
    """Kill what has the word, which is a path under a private root, on its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "live-restore"])
def private(request: pytest.FixtureRequest) -> Iterator[PrivateEngine]:
    found = PrivateEngine(Path(tempfile.mkdtemp(prefix="assay-d")), request.param)
    try:
        found.start()
        _hand_over_base_image(found)
        yield found
    finally:
        found.end()


def _hand_over_base_image(private: PrivateEngine) -> None:
    with_image = Engine.connect()
    tag = open_base_image(with_image).tag
    saved = subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE)
    subprocess.run(
        ["docker", "--host", private.host, "load", "-q"], stdin=saved.stdout, check=True, capture_output=True
    )
    assert saved.wait() == 0
    with_image.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_engine_that_restarts_loses_the_cell_and_keeps_nothing(
    private: PrivateEngine, tmp_path: Path, number: signal.Signals
) -> None:
    engine = Engine.connect(private.host)
    sandboxes = DockerSandboxes(engine, tmp_path)
    cells = SpecimenCells.on(engine, tmp_path, sandboxes)
    before = engine.process()

    def kill(phase: str) -> None:
        if phase == "run":
            private.kill(number)

    with pytest.raises(InfraFailure) as caught:
        cells.run("command", {"command": ["sleep", "30"]}, on_phase=kill)
    assert caught.value.reason == "engine_lost", caught.value
    private.start()
    assert engine.process() != before
    if sandboxes.sweep():
        # Engine 20.10 with live-restore counts a volume's mounts wrongly after a restart and keeps the empty volume.
        assert private.live_restore and engine.api.containers(all=True) == []
        private.kill(signal.SIGTERM)
        private.start()
    assert sandboxes.sweep() == []
    assert engine.api.containers(all=True) == [] and not engine.api.volumes()["Volumes"]
    cells.run("nop").close()
    engine.close()
