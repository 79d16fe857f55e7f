"""A process in a cell looks around.

Naive: what is not forbidden by name is reachable, from the engine's socket to the hidden tests. Ours: it is not there.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.specimen import SpecimenCells
from tests.attacks.boundary import EPILOGUE, PRELUDE, Doors, doors, worked

pytestmark = [pytest.mark.engine, pytest.mark.attack]

LOOK_AROUND = r"""
def sealed_text_somewhere():
    for folder, folders, names in os.walk("/"):
        folders[:] = [one for one in folders if (folder, one) not in (("/", "proc"), ("/", "sys"))]
        for name in names:
            path = os.path.join(folder, name)
            try:
                content = open(path, "rb").read(1 << 22) if stat.S_ISREG(os.lstat(path).st_mode) else b""
            except OSError:
                continue
            if any(word.encode() in content for word in told["sealed"]):
                return True
    return False
def suid_programs():
    found = subprocess.run(["find", "/", "-xdev", "-perm", "/6000", "-type", "f"], capture_output=True, timeout=30)
    return found.stdout.strip() != b""
def raw():
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).fileno() >= 0
def packet():
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW).fileno() >= 0
def becomes_root():
    os.setuid(0)
    return os.getuid() == 0
def device():
    os.mknod("disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0))
    return True
def other_process():
    return any(os.stat("/proc/" + one).st_uid == 0 for one in os.listdir("/proc") if one.isdigit())
def there(*paths):
    return any(map(os.path.exists, paths))
def control_group(name, v1):
    return writes("/sys/fs/cgroup/" + name) or writes("/sys/fs/cgroup/" + v1)
def interfaces():
    return any(name != "lo" for _, name in socket.if_nameindex())
def in_environment():
    return any(word in name + value for word in told["names"] for name, value in os.environ.items())

for path in told["engine"]:
    attack("the engine's socket " + path, lambda: connects(path))
attack("the attempt's folder on the host", lambda: os.listdir(told["attempt"]))
attack("the verifier pack on the host", lambda: os.listdir(told["pack"]))
attack("the host's root through its first process", lambda: os.path.exists("/proc/1/root" + told["witness"]))
attack("a file of the host", lambda: reads(told["witness"]))
attack("a hidden test or the gold patch in any file", sealed_text_somewhere)
attack("post-run files in the usual places", lambda: there("/post", "/assay/post", "../post", "/live", "/start"))
attack("trusted programs", lambda: there("/assay/incell/collector.py", "/assay/incell/verifier.py"))
attack("the collector's repository for writing", lambda: writes("/assay/collector.git/config"))
attack("our programs for writing", lambda: writes("/assay/incell/init.py"))
attack("programs of the image for writing", lambda: writes("/usr/bin/git"))
attack("the user table", lambda: writes("/etc/passwd"))
attack("a mount", lambda: runs("mount", "-t", "tmpfs", "none", "/mnt"))
attack("a mount taken away", lambda: runs("umount", "/assay/incell"))
attack("the root made writable", lambda: runs("mount", "-o", "remount,rw", "/"))
attack("a user namespace", lambda: call(272, 0x10000000))
attack("another mount namespace", lambda: call(272, 0x00020000))
attack("a device node", device)
attack("a raw socket", raw)
attack("a packet socket", packet)
attack("root", becomes_root)
attack("programs that change who they are", suid_programs)
attack("the kernel's log", lambda: reads("/dev/kmsg") or call(103, 10, 0, 0))
attack("the core pattern", lambda: writes("/proc/sys/kernel/core_pattern"))
attack("sysrq", lambda: writes("/proc/sysrq-trigger"))
attack("the release agent of a control group", lambda: control_group("release_agent", "memory/release_agent"))
attack("its own limits", lambda: control_group("memory.max", "memory/memory.limit_in_bytes"))
attack("the memory of the first process", lambda: open("/proc/1/mem", "r+b").fileno() >= 0)
attack("a trace of the first process", lambda: call(101, 16, 1, 0, 0))
attack("a bpf program", lambda: call(321, 0, 0, 0))
attack("the key ring", lambda: call(248, b"user", b"assay", b"x", 1, -3))
attack("kernel modules", lambda: call(175, 0, 0, b""))
attack("the host's processes", other_process)
attack("the metadata address", lambda: reaches("169.254.169.254", 80))
attack("the metadata address of another cloud", lambda: reaches("100.100.100.200", 80))
attack("the engine's bridge", lambda: reaches("172.17.0.1", 22))
attack("services on the host's loopback", lambda: reaches("127.0.0.1", told["port"]))
attack("a name server", lambda: bool(socket.getaddrinfo("example.org", 80)))
attack("an interface beside the loopback", interfaces)
attack("the arm or the study in its environment", in_environment)
"""
ATTACKS = re.findall(r'^ *attack\("([^"]+)"', LOOK_AROUND, re.M)

HARMLESS = (
    "the attempt's folder on the host",
    "the verifier pack on the host",
    "a file of the host",
    "services on the host's loopback",
    "the arm or the study in its environment",
)
"""What may be tried on the host itself, where nothing is in the way."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    engine = Engine.connect()
    root: Path = tmp_path_factory.mktemp("look")
    with doors(SpecimenCells.on(engine, root, DockerSandboxes(engine, root))) as opened:
        yield opened
    engine.close()


@pytest.fixture(scope="module")
def seen(bench: Doors, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Everything that one cell, with a door to a model, tries at once."""
    witness = tmp_path_factory.mktemp("host") / "witness"
    witness.write_text("only on the host")
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = {
            "engine": ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"],
            "attempt": str(bench.cells.root),
            "pack": str(bench.cells.task.sealed),
            "witness": str(witness),
            "port": server.getsockname()[1],
            "sealed": ["hello you", 'echo "hello $' + "1"],
            "names": ["specimen-arm", "treatment", "control"],
        }
        result = bench.run(bench.request(LOOK_AROUND, told, script=[{"content": "done"}]))
    with closing(result.collector):
        return worked(result)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_cell_does_not_reach(seen: dict[str, bool], name: str) -> None:
    hits = [attack for attack, hit in seen.items() if attack.startswith(name) and hit]
    assert any(attack.startswith(name) for attack in seen), "the attack was not even tried"
    assert hits == []


def test_the_attacks_find_what_they_look_for_where_nothing_is_in_the_way(bench: Doors, tmp_path: Path) -> None:
    """The same program on the host: most of it works, so its silence in a cell means something."""
    witness = tmp_path / "witness"
    witness.write_text("only on the host")
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = {
            "engine": [],
            "attempt": str(bench.cells.root),
            "pack": str(bench.cells.task.sealed),
            "witness": str(witness),
            "port": server.getsockname()[1],
            "sealed": [],
            "names": ["PATH"],
        }
        lines = [line for line in LOOK_AROUND.splitlines() if not line.startswith("attack(") or _is_harmless(line)]
        words = ["python3", "-I", "-c", PRELUDE + "\n".join(lines) + EPILOGUE, json.dumps(told)]
        subprocess.run(words, cwd=tmp_path, check=True, timeout=60, env=dict(os.environ))
    found = json.loads((tmp_path / "worked.json").read_bytes())
    assert [name for name in HARMLESS if not found[name]] == []


def _is_harmless(line: str) -> bool:
    return any(f'"{name}"' in line for name in HARMLESS)
