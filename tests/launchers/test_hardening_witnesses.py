"""Each protection has a witness inside the container: take one away, and exactly its witness turns red (C1)."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from cells.sandbox import ContainerSpec, Limits, Owner
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.hardening import FULL
from launchers.specimen import SpecimenCells

pytestmark = [pytest.mark.engine, pytest.mark.attack]
LIMITS = Limits(memory_mb=64, cpus=0.5, disk_mb=16, pids=32, tmp_mb=16)
WITNESSES = """
import os, resource, sys, time
red = []
def witness(name, look):
    try:
        if look():
            red.append(name)
    except (OSError, MemoryError):
        pass
def create(path):
    open(path, "w").close()
    return True
def sparse():
    with open("/tmp/sparse", "w"):
        os.truncate("/tmp/sparse", 1 << 30)
    return True
def forks():
    pids = []
    try:
        for _ in range(100):
            pid = os.fork()
            if pid == 0:
                time.sleep(60); os._exit(0)
            pids.append(pid)
        return True
    finally:
        for pid in pids:
            os.kill(pid, 9); os.waitpid(pid, 0)
def memory():
    pid = os.fork()
    if pid == 0:
        hold = [bytearray(1 << 20) for _ in range(160)]
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0
def fill(path, size):
    with open(path, "wb", buffering=0) as stream:
        for _ in range(size):
            if stream.write(bytes(1 << 20)) != 1 << 20:
                return False
    os.unlink(path)
    return True
def quota():
    try:
        with open("/sys/fs/cgroup/cpu.max") as stream:
            return stream.read().startswith("max")
    except FileNotFoundError:
        with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") as stream:
            return int(stream.read()) < 0
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
witness("no_network", lambda: interfaces != ["lo"])
witness("drop_capabilities", lambda: int(status["CapBnd"], 16) != 0)
witness("no_new_privileges", lambda: status["NoNewPrivs"].strip() == "0")
witness("seccomp", lambda: status["Seccomp"].strip() != "2")
witness("own_user", lambda: os.getuid() == 0)
witness("read_only_root", lambda: create("/var/tmp/x" if os.getuid() else "/x"))
witness("pids", forks)
witness("memory", memory)
witness("cpus", quota)
witness("open_files", lambda: len([os.open("/dev/null", 0) for _ in range(1500)]) == 1500)
for number in range(3, 1600):
    try:
        os.close(number)
    except OSError:
        pass
witness("core_files", lambda: resource.getrlimit(resource.RLIMIT_CORE)[1] != 0)
witness("file_size", sparse)
own_ipc = os.readlink("/proc/self/ns/ipc") != sys.argv[1]
witness("private_ipc", lambda: not own_ipc)
witness("small_shm", lambda: own_ipc and os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize > 64 << 20)
witness("capped_tmp", lambda: os.statvfs("/tmp").f_blocks * os.statvfs("/tmp").f_frsize != 16 << 20)
sys.stderr.write(" ".join(red) or "all green")
"""


def red(engine: Engine, specimens: SpecimenCells, protection: str | None) -> set[str]:
    """The witnesses that are red without one protection."""
    hardening = FULL if protection is None else replace(FULL, **{protection: False})
    owner = Owner("tests", "hardening", "a001", "agent", 600)
    command = ("python3", "-I", "-S", "-c", WITNESSES, os.readlink("/proc/self/ns/ipc"))
    spec = ContainerSpec(owner, specimens.image.image_id, command, LIMITS)
    container = DockerSandboxes(engine, hardening=hardening).create(spec)
    try:
        channel = container.attach()
        container.start()
        end = container.wait(_soon())
        with pytest.raises(Exception, match="stdout ended"):
            channel.receive(_soon(), 10)
        assert end is not None and end.code == 0, end
        said = container.kill("read").stderr or channel.stderr  # type: ignore[attr-defined]
        return set(said.decode().split()) - {"all", "green"}
    finally:
        container.remove()


def _soon() -> float:
    return time.monotonic() + 60


def test_with_every_protection_no_witness_is_red(engine: Engine, specimens: SpecimenCells) -> None:
    assert red(engine, specimens, None) == set()


@pytest.mark.parametrize(
    "protection",
    [
        "no_network",
        "drop_capabilities",
        "no_new_privileges",
        "seccomp",
        "own_user",
        "read_only_root",
        "pids",
        "memory",
        "cpus",
        "open_files",
        "core_files",
        "file_size",
        "private_ipc",
        "small_shm",
        "capped_tmp",
    ],
)
def test_without_one_protection_exactly_its_witness_is_red(
    engine: Engine, specimens: SpecimenCells, protection: str
) -> None:
    assert red(engine, specimens, protection) == {protection}


def test_nothing_that_a_container_says_is_kept_by_the_engine(engine: Engine, specimens: SpecimenCells) -> None:
    """The witness of the log: the engine's own copy of what a container printed."""
    kept = {}
    for on in (True, False):
        spec = ContainerSpec(
            Owner("tests", "hardening", "a001", "agent", 600), specimens.image.image_id, ("echo", "flood"), LIMITS
        )
        container = DockerSandboxes(engine, hardening=replace(FULL, no_log=on)).create(spec)
        try:
            container.start()
            container.wait(_soon())
            kept[on] = engine.api.inspect_container(container.id)["LogPath"]
        finally:
            container.remove()
    assert kept[True] == "" and kept[False] != ""
