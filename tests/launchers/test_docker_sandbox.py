"""Containers and volumes on the real engine: what they hold, and how each end is told apart."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cells.errors import InfraFailure
from cells.sandbox import Channel, ChannelClosed, Container, ContainerSpec, Limits, Mount, Owner
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.specimen import SpecimenCells

pytestmark = pytest.mark.engine
OWNER = Owner("tests", "docker-sandbox", "a001", "agent", 600)
LIMITS = Limits(memory_mb=128, cpus=1.0, disk_mb=32, pids=64)
# Answers each frame with what the expression in its body evaluates to; `value` may be assigned by statements before.
SERVANT = """
import json, os, sys
while True:
    line = sys.stdin.buffer.readline()
    if not line:
        break
    space = {"os": os, "sys": sys}
    exec(sys.stdin.buffer.read(json.loads(line)["size"]), space)
    body = json.dumps(space.get("value")).encode()
    sys.stdout.buffer.write(b'{"type": "value", "size": %d}\\n' % len(body) + body)
    sys.stdout.buffer.flush()
"""


def soon(seconds: float = 30.0) -> float:
    return time.monotonic() + seconds


@dataclass
class Servant:
    """A container that evaluates what it is sent."""

    container: Container
    channel: Channel

    def value(self, *lines: str) -> Any:
        """What `value` is after the lines."""
        self.tell(*lines)
        return json.loads(self.channel.receive(soon(), 1 << 20).body)

    def tell(self, *lines: str) -> None:
        self.channel.send({"type": "run"}, "\n".join(lines).encode())


@dataclass
class Bench:
    """Makes servants and volumes, and removes them."""

    sandboxes: DockerSandboxes
    image: str
    made: ExitStack

    def servant(self, *mounts: Mount, program: str = SERVANT, **changes: Any) -> Servant:
        spec = ContainerSpec(OWNER, self.image, ("python3", "-I", "-S", "-c", program), LIMITS, mounts=mounts)
        container = self.sandboxes.create(replace(spec, **changes))
        self.made.callback(container.remove)
        servant = Servant(container, container.attach())
        container.start()
        return servant

    def volume(self, limits: Limits = LIMITS) -> str:
        name = self.sandboxes.create_volume(OWNER, limits)
        self.made.callback(self.sandboxes.remove_volume, name)
        return name


@pytest.fixture
def bench(engine: Engine, specimens: SpecimenCells, tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as made:
        yield Bench(DockerSandboxes(engine, tmp_path), specimens.image.image_id, made)


def test_an_exit_by_itself_is_its_code_and_its_last_words(bench: Bench) -> None:
    servant = bench.servant(program="import sys; sys.stderr.write('sorry\\n'); sys.exit(3)")
    end = servant.container.wait(soon())
    with pytest.raises(ChannelClosed):
        servant.channel.receive(soon(), 10)
    assert end is not None and end.code == 3
    assert (end.oom_killed, end.killed_by_us, end.engine_changed) == (False, None, False)


def test_what_it_said_on_stderr_stands_in_its_end(bench: Bench) -> None:
    servant = bench.servant()
    servant.value("sys.stderr.write('careful\\n'); sys.stderr.flush(); value = 1")
    end = servant.container.kill("test")
    assert end.stderr == b"careful\n"


def test_our_own_kill_is_told_with_its_reason(bench: Bench) -> None:
    servant = bench.servant()
    assert servant.value("value = os.getpid()") == 1
    assert servant.container.wait(time.monotonic() + 0.2) is None
    end = servant.container.kill("wall_limit")
    assert (end.code, end.killed_by_us, end.oom_killed, end.engine_changed) == (137, "wall_limit", False, False)
    assert servant.container.kill("again") is end and servant.container.wait(soon()) is end


def test_a_kill_that_comes_too_late_is_not_the_reason(bench: Bench, engine: Engine) -> None:
    servant = bench.servant(program="raise SystemExit(5)")
    engine.api.wait(servant.container.id)
    end = servant.container.kill("wall_limit")
    assert (end.code, end.killed_by_us) == (5, None)


def test_a_kill_by_somebody_else_is_neither_ours_nor_memory(bench: Bench, engine: Engine) -> None:
    servant = bench.servant()
    servant.value("value = 1")
    engine.api.kill(servant.container.id)
    end = servant.container.wait(soon())
    assert end is not None
    assert (end.code, end.killed_by_us, end.oom_killed, end.engine_changed) == (137, None, False, False)


@pytest.mark.fault
@pytest.mark.parametrize("when", ["before the wait", "during the wait"])
def test_a_container_removed_behind_our_back_is_a_loss_of_the_engine(bench: Bench, engine: Engine, when: str) -> None:
    servant = bench.servant()
    servant.value("value = 1")
    remove: Callable[[], None] = lambda: engine.api.remove_container(servant.container.id, force=True)  # noqa: E731
    if when == "before the wait":
        remove()
        end = servant.container.wait(soon())
    else:
        remover = threading.Timer(0.3, remove)
        remover.start()
        end = servant.container.wait(soon())
        remover.join()
    assert end is not None and end.engine_changed and end.killed_by_us is None
    servant.container.remove()


@pytest.mark.fault
def test_a_kill_of_a_container_that_is_gone_says_that_it_was_lost(bench: Bench, engine: Engine) -> None:
    servant = bench.servant()
    engine.api.remove_container(servant.container.id, force=True)
    assert servant.container.kill("wall_limit").engine_changed


def test_a_first_process_that_outgrows_its_memory_is_told_by_the_kernel(bench: Bench) -> None:
    servant = bench.servant()
    servant.tell("hold = [bytearray(1 << 20) for _ in range(1000)]")
    end = servant.container.wait(soon())
    assert end is not None and (end.code, end.oom_killed) == (137, True)


def test_a_child_killed_for_memory_is_seen_in_the_counters_and_not_in_the_exit_code(bench: Bench) -> None:
    servant = bench.servant()
    greedy = ["if (pid := os.fork()) == 0:", "    hold = [bytearray(1 << 20) for _ in range(1000)]"]
    assert servant.value(*greedy, "value = os.waitpid(pid, 0)[1]") == 9
    found = servant.container.counters()
    assert found["oom_kills"] == 1 and (found["memory_peak_mb"] or 0) > 100
    end = servant.container.kill("test")
    assert end.oom_killed and end.killed_by_us == "test"


def test_counters_of_a_running_container_are_known(bench: Bench) -> None:
    servant = bench.servant()
    servant.value("value = sum(range(3000000))")
    found = servant.container.counters()
    assert found["pids"] == 1 and (found["cpu_s"] or 0) > 0.01 and (found["memory_peak_mb"] or 0) > 1


@pytest.mark.parametrize("backing", ["memory", "file"])
def test_a_volume_is_empty_owned_by_the_agent_and_capped(bench: Bench, backing: str) -> None:
    limits = replace(LIMITS, disk_backing=backing)
    volume = bench.volume(limits)
    servant = bench.servant(Mount(volume, "/volume", read_only=False), limits=limits)
    assert servant.value("s = os.stat('/volume'); value = [s.st_uid, s.st_mode & 0o7777, os.listdir('/volume')]") == [
        65532,
        0o750,
        [],
    ]
    fill = ["total, value = 0, None", "with open('/volume/fill', 'wb', buffering=0) as stream:", "    try:"]
    fill += ["        while True:", "            total += stream.write(bytes(1 << 20))", "    except OSError as error:"]
    code, written = servant.value(*fill, "        value = [error.errno, total]")
    assert code == 28 and 24 << 20 <= written <= 32 << 20
    assert servant.container.wait(time.monotonic()) is None, "a full disk is no reason to die"


def test_a_volume_has_a_cap_on_its_number_of_files_too(bench: Bench) -> None:
    servant = bench.servant(Mount(bench.volume(replace(LIMITS, disk_mb=8)), "/volume", read_only=False))
    loop = ["number = 0", "try:", "    while True:", "        open(f'/volume/{number}', 'x').close(); number += 1"]
    code, number = servant.value(*loop, "except OSError as error:", "    value = [error.errno, number]")
    assert code == 28 and 1900 < number < 2100


def test_a_volume_in_memory_lives_as_long_as_somebody_holds_it(bench: Bench) -> None:
    volume = bench.volume()
    holder = bench.servant(Mount(volume, "/in"), user="0:0", capabilities=("DAC_OVERRIDE",))
    writer = bench.servant(Mount(volume, "/volume", read_only=False))
    writer.value("open('/volume/f', 'w').write('kept'); os.chmod('/volume/f', 0); os.chmod('/volume', 0); value = 1")
    writer.container.kill("test")
    writer.container.remove()
    assert holder.value("value = [open('/in/' + name).read() for name in os.listdir('/in')]") == ["kept"]
    refused = ["try:", "    open('/in/new', 'w')", "except OSError as error:", "    value = error.errno"]
    assert holder.value(*refused) == 30


def test_a_file_backed_volume_leaves_neither_image_nor_loop_device(bench: Bench, tmp_path: Path) -> None:
    name = bench.sandboxes.create_volume(OWNER, replace(LIMITS, disk_backing="file"))
    (image,) = tmp_path.iterdir()
    backing = [Path(path).read_text().strip() for path in _loops()]
    assert str(image) in backing
    bench.sandboxes.remove_volume(name)
    bench.sandboxes.remove_volume(name)
    assert list(tmp_path.iterdir()) == []
    assert str(image) not in [Path(path).read_text().strip() for path in _loops() if os.path.exists(path)]


def test_a_volume_without_a_size_is_refused(bench: Bench) -> None:
    with pytest.raises(InfraFailure, match="0 MiB"):
        bench.sandboxes.create_volume(OWNER, replace(LIMITS, disk_mb=0))


def test_without_a_run_directory_a_file_backed_volume_is_refused(engine: Engine) -> None:
    with pytest.raises(InfraFailure, match="run directory"):
        DockerSandboxes(engine).create_volume(OWNER, replace(LIMITS, disk_backing="file"))


def test_a_missing_image_and_a_refused_container_are_told_apart(bench: Bench) -> None:
    spec = ContainerSpec(OWNER, "sha256:" + "0" * 64, ("true",), LIMITS)
    with pytest.raises(InfraFailure) as missing:
        bench.sandboxes.create(spec)
    with pytest.raises(InfraFailure) as refused:
        bench.sandboxes.create(replace(spec, image=bench.image, limits=replace(LIMITS, memory_mb=1, disk_mb=1)))
    assert (missing.value.reason, refused.value.reason) == ("image_missing", "engine_refused")


def test_a_program_that_is_not_there_is_said_at_the_start(bench: Bench) -> None:
    container = bench.sandboxes.create(ContainerSpec(OWNER, bench.image, ("no-such-program",), LIMITS))
    bench.made.callback(container.remove)
    with pytest.raises(InfraFailure, match="no-such-program"):
        container.start()


def test_removing_twice_is_no_error(bench: Bench) -> None:
    servant = bench.servant()
    servant.container.remove()
    servant.container.remove()


@pytest.mark.fault
def test_what_could_not_be_removed_is_tried_again(bench: Bench) -> None:
    volume = bench.volume()
    user = bench.servant(Mount(volume, "/work"))
    with pytest.raises(InfraFailure, match="in use"):
        bench.sandboxes.remove_volume(volume)
    assert bench.sandboxes.sweep() == [volume]
    user.container.remove()
    assert bench.sandboxes.sweep() == []


def test_everything_carries_our_labels(bench: Bench, engine: Engine) -> None:
    servant, volume = bench.servant(), bench.volume()
    for labels in (
        engine.api.inspect_container(servant.container.id)["Config"]["Labels"],
        engine.api.inspect_volume(volume)["Labels"],
    ):
        assert {key: labels[key] for key in ("assay.study", "assay.cell", "assay.attempt", "assay.role")} == {
            "assay.study": "tests",
            "assay.cell": "docker-sandbox",
            "assay.attempt": "a001",
            "assay.role": "agent",
        }
        assert labels["assay.owner"].startswith(f"{os.getpid()}.") and int(labels["assay.deadline"]) > time.time()


def test_the_engine_says_who_it_is(engine: Engine) -> None:
    found = engine.identity()
    assert found["name"] == "docker" and found["version"] and found["kernel"] == os.uname().release
    assert found["cgroup_version"] in ("1", "2") and found["runtime"]
    assert found["process"]["pid"] > 1 and found == engine.identity()


def _loops() -> list[str]:
    return [
        f"/sys/block/{name}/loop/backing_file"
        for name in os.listdir("/sys/block")
        if name.startswith("loop") and os.path.exists(f"/sys/block/{name}/loop/backing_file")
    ]
