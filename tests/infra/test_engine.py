"""An engine is used as it is, started by root where there is none, and otherwise refused with what to do."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cells.errors import EnvironmentFault
from infra.machine.engine import EnginePlace, dockerd_options, ensure_engine, remove_stale_pid
from infra.machine.packages import find_program
from launchers.base_image import EngineApi

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534

# Imports first, then gives up root for good: nothing has to be readable for the other user.
ASK_AS_NOBODY = f"""
import os, sys
from pathlib import Path
from cells.errors import EnvironmentFault
from infra.machine.engine import EnginePlace, ensure_engine
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
try:
    ensure_engine(EnginePlace.private(Path(sys.argv[1])), {{}}, Path("/dev/null"))
except EnvironmentFault as fault:
    print(fault)
    sys.exit(fault.exit_code)
"""


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory with a short name (a socket's path may have 107 bytes) that others may enter."""
    directory = Path(tempfile.mkdtemp(prefix="assay-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def ask_as_nobody(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ASK_AS_NOBODY, str(directory)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can try what another user is told")


@needs_root
def test_who_is_not_root_is_told_that_only_root_may_start_an_engine(short_directory: Path) -> None:
    done = ask_as_nobody(short_directory)
    assert (done.returncode, done.stderr) == (3, "")
    assert "only root may start one" in done.stdout and "DOCKER_HOST" in done.stdout


@needs_root
def test_who_may_not_open_the_socket_is_told_to_join_the_group(short_directory: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as closed:
        closed.bind(str(short_directory / "engine.sock"))
        (short_directory / "engine.sock").chmod(0o600)
        done = ask_as_nobody(short_directory)
    assert done.returncode == 3
    assert f"user {NOBODY} may not open it" in done.stdout and "group `docker`" in done.stdout


def test_an_engine_that_docker_host_names_is_never_started_here(tmp_path: Path) -> None:
    place = EnginePlace.private(tmp_path)
    with pytest.raises(EnvironmentFault, match="tcp://127.0.0.1:1.*unset DOCKER_HOST"):
        ensure_engine(place, {"DOCKER_HOST": "tcp://127.0.0.1:1"}, tmp_path / "log")
    assert not place.log.exists()


@pytest.mark.parametrize("waited_for", [True, False], ids=["gone", "zombie"])
def test_a_pid_file_of_a_process_that_has_ended_is_removed(tmp_path: Path, waited_for: bool) -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    end(sleeper.pid, signal.SIGKILL)
    if waited_for:
        sleeper.wait()
    pid_file = tmp_path / "engine.pid"
    pid_file.write_text(f"{sleeper.pid}\n")
    assert not remove_stale_pid(pid_file, "sleep")
    assert not pid_file.exists()
    sleeper.wait()


def test_a_pid_that_another_program_took_over_is_stale(tmp_path: Path) -> None:
    pid_file = tmp_path / "engine.pid"
    pid_file.write_text(str(os.getpid()))
    assert not remove_stale_pid(pid_file, "dockerd")
    assert not pid_file.exists()


def test_the_pid_file_of_a_living_program_stays(tmp_path: Path) -> None:
    pid_file = tmp_path / "engine.pid"
    pid_file.write_text(str(os.getpid()))
    own_name = Path("/proc/self/comm").read_text().strip()
    assert remove_stale_pid(pid_file, own_name)
    assert pid_file.exists()


def test_an_engine_of_ours_has_no_bridge_and_no_firewall_rules() -> None:
    assert {"--bridge=none", "--iptables=false", "--ip6tables=false"} <= set(dockerd_options(EnginePlace.default()))


def test_what_the_machine_decided_for_its_engine_is_not_said_twice(tmp_path: Path) -> None:
    """dockerd refuses to start when a directive stands both in daemon.json and on its command line."""
    place = EnginePlace.private(tmp_path)
    place.daemon_json.write_text(json.dumps({"iptables": True}))
    assert "--iptables=false" not in dockerd_options(place)
    assert "--bridge=none" in dockerd_options(place)


def test_a_daemon_json_that_is_not_json_is_named(tmp_path: Path) -> None:
    place = EnginePlace.private(tmp_path)
    place.daemon_json.write_text("{")
    with pytest.raises(EnvironmentFault, match=r"daemon\.json"):
        dockerd_options(place)


@pytest.mark.engine
def test_a_running_engine_is_used_as_it_is(tmp_path: Path) -> None:
    before = EngineApi.from_environment(os.environ).info()["ID"]
    said = ensure_engine(EnginePlace.default(), os.environ, tmp_path / "apt.log")
    assert "used as it is" in said
    assert EngineApi.from_environment(os.environ).info()["ID"] == before
    assert not (tmp_path / "apt.log").exists()


@pytest.fixture
def private_place(short_directory: Path) -> Iterator[EnginePlace]:
    """An engine beside the machine's own; whatever of it lives at the end is ended."""
    if os.geteuid() != 0 or find_program("dockerd") is None:
        pytest.skip("needs root and dockerd")
    place = EnginePlace.private(short_directory)
    yield place
    for pid_file in (place.pid_file, place.exec_root / "containerd" / "containerd.pid"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            end(int(pid_file.read_text()), signal.SIGTERM)
    for mount in reversed(mounts_under(short_directory)):
        subprocess.run(["umount", "--lazy", mount], check=True, timeout=60)


def end(pid: int, signal_number: int) -> None:
    """Send the signal and wait until the process is gone; the kernel tells when."""
    handle = os.pidfd_open(pid)
    try:
        os.kill(pid, signal_number)
        readable, _, _ = select.select([handle], [], [], 60.0)
        assert readable, f"process {pid} survives signal {signal_number}"
    finally:
        os.close(handle)


def mounts_under(directory: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(f"{directory}/")]


@pytest.mark.engine
@pytest.mark.fault
def test_an_engine_killed_without_warning_is_started_again_beside_its_living_containerd(
    private_place: EnginePlace, tmp_path: Path
) -> None:
    first = ensure_engine(private_place, {}, tmp_path / "apt.log")
    killed = int(private_place.pid_file.read_text())
    containerd = int((private_place.exec_root / "containerd" / "containerd.pid").read_text())
    end(killed, signal.SIGKILL)
    assert private_place.pid_file.exists(), "the stale pid file is the case"

    second = ensure_engine(private_place, {}, tmp_path / "apt.log")

    assert first == second and "used as it is" not in second
    assert int(private_place.pid_file.read_text()) != killed
    assert Path(f"/proc/{containerd}/comm").read_text().strip() == "containerd"


@pytest.mark.engine
@pytest.mark.fault
def test_an_engine_that_cannot_start_is_refused_with_its_own_last_words(
    private_place: EnginePlace, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    options = tuple(option for option in private_place.options if not option.startswith("--data-root"))
    broken = dataclasses.replace(private_place, options=(*options, f"--data-root={tmp_path}/file"))
    with pytest.raises(EnvironmentFault, match="(?s)dockerd ended with.*points to a file"):
        ensure_engine(broken, {}, tmp_path / "apt.log")
