"""Finding an engine, and what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cells.errors import EnvironmentFault
from launchers.engine import Engine, describe

INFO: dict[str, Any] = {
    "ID": "X",
    "KernelVersion": "6.1",
    "Architecture": "x86_64",
    "OperatingSystem": "Debian",
    "DefaultRuntime": "runc",
    "CgroupVersion": "2",
    "CgroupDriver": "systemd",
    "Driver": "overlay2",
    "SecurityOptions": ["name=seccomp,profile=default", "name=cgroupns"],
    "LiveRestoreEnabled": False,
    "NCPU": 2,
    "MemTotal": 8 << 30,
    "DockerRootDir": "/var/lib/docker",
}
VERSION = {
    "Version": "24.0",
    "ApiVersion": "1.43",
    "Components": [{"Name": "containerd", "Version": "1.6"}, {"Name": "runc", "Version": "1.1"}],
}


def test_no_engine_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"infra/run.*DOCKER_HOST") as caught:
        Engine.connect(f"unix://{tmp_path}/none.sock")
    assert caught.value.exit_code == 3 and str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    "host", ["ssh://somebody@elsewhere", "https://elsewhere:2376", "npipe:////./pipe/docker_engine"]
)
def test_an_engine_that_cannot_share_folders_with_us_is_refused(host: str) -> None:
    with pytest.raises(EnvironmentFault, match="must be on this machine"):
        Engine.connect(host)


def test_the_description_holds_what_a_fingerprint_needs() -> None:
    found = describe(INFO, VERSION)
    assert (found["version"], found["runtime"], found["runtime_version"]) == ("24.0", "runc", "1.1")
    assert (found["containerd_version"], found["cgroup_version"], found["memory_mb"]) == ("1.6", "2", 8192)
    assert found["security_options"] == ["name=cgroupns", "name=seccomp,profile=default"]
    assert found["uid_offset"] == 0


def test_what_an_engine_does_not_say_is_unknown() -> None:
    found = describe({}, {})
    assert found.pop("name") == "docker" and found.pop("uid_offset") == 0 and found.pop("security_options") == []
    assert set(found.values()) == {None}


@pytest.mark.parametrize(
    ("options", "root", "offset"),
    [
        (["name=userns"], "/var/lib/docker/200000.200000", 200_000),
        (["name=userns"], "/var/lib/docker/200000.200000/", 200_000),
        ([], "/var/lib/docker/200000.200000", 0),
        (["name=userns"], "/var/lib/docker", 0),
    ],
)
def test_a_remapped_engine_tells_its_offset(options: list[str], root: str, offset: int) -> None:
    found = describe({**INFO, "SecurityOptions": options, "DockerRootDir": root}, VERSION)
    assert found["uid_offset"] == offset


def test_an_engine_on_another_machine_has_no_process_to_compare() -> None:
    assert Engine(client=None, host="tcp://elsewhere:2376").process() is None  # type: ignore[arg-type]
    assert Engine(client=None, host="unix:///no/such.sock").process() is None  # type: ignore[arg-type]
