"""The configuration of every container: what stands in it, and that each protection is one field."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from cells.sandbox import ContainerSpec, Limits, Mount, Owner
from launchers.hardening import FULL, Hardening, container_config

SPEC = ContainerSpec(
    owner=Owner("study", "cell", "a001", "agent", 60),
    image="sha256:1",
    command=("python3", "init.py"),
    limits=Limits(memory_mb=100, cpus=0.5, disk_mb=30, pids=40, tmp_mb=20),
    mounts=(Mount("vol", "/workspace", read_only=False), Mount("/gw/c1", "/gw", kind="directory")),
    tmpfs={"/work": "rw,size=1m"},
)


def test_the_full_profile_is_what_30_evidence_c1_says() -> None:
    config = container_config(SPEC, {"assay.role": "agent"})
    host = config["HostConfig"]
    assert (config["User"], config["Hostname"], config["Labels"]) == ("65532:65532", "cell", {"assay.role": "agent"})
    assert (host["NetworkMode"], host["CapDrop"], host["CapAdd"]) == ("none", ["ALL"], [])
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["ReadonlyRootfs"] is True and host["Privileged"] is False
    assert (host["Memory"], host["MemorySwap"]) == (130 << 20, 130 << 20)
    assert (host["NanoCpus"], host["PidsLimit"], host["IpcMode"], host["ShmSize"]) == (
        500_000_000,
        40,
        "private",
        64 << 20,
    )
    assert {row["Name"]: (row["Soft"], row["Hard"]) for row in host["Ulimits"]} == {
        "nofile": (1024, 1024),
        "core": (0, 0),
        "fsize": (31 << 20, 31 << 20),
    }
    assert host["Tmpfs"] == {
        "/tmp": "rw,nosuid,nodev,exec,size=20m,nr_inodes=20000,mode=1777",
        "/work": "rw,size=1m",
    }
    assert host["LogConfig"]["Type"] == "none"


def test_nothing_of_the_image_runs_by_itself() -> None:
    config = container_config(SPEC, {})
    assert config["Entrypoint"] == ["python3", "init.py"] and config["Cmd"] == []
    assert config["Healthcheck"] == {"Test": ["NONE"]}


def test_volumes_are_never_filled_from_the_image_and_directories_never_leak_mounts() -> None:
    volume, directory = container_config(SPEC, {})["HostConfig"]["Mounts"]
    assert volume == {
        "Type": "volume",
        "Source": "vol",
        "Target": "/workspace",
        "ReadOnly": False,
        "VolumeOptions": {"NoCopy": True},
    }
    assert directory["ReadOnly"] is True and directory["BindOptions"] == {"Propagation": "rprivate"}


def test_a_disk_backed_volume_is_not_counted_as_memory() -> None:
    spec = replace(SPEC, limits=replace(SPEC.limits, disk_backing="file"))
    assert container_config(spec, {})["HostConfig"]["Memory"] == 100 << 20


def test_capabilities_are_added_only_to_none() -> None:
    spec = replace(SPEC, user="0:0", capabilities=("DAC_OVERRIDE",))
    host = container_config(spec, {})["HostConfig"]
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], ["DAC_OVERRIDE"])


@pytest.mark.parametrize("name", [field.name for field in fields(Hardening)])
def test_each_protection_can_be_taken_away_alone(name: str) -> None:
    whole = container_config(SPEC, {})
    without = container_config(SPEC, {}, replace(FULL, **{name: False}))
    changed = [key for key in _flat(whole) | _flat(without) if _flat(whole).get(key) != _flat(without).get(key)]
    allowed = {"no_network": 2, "memory": 2, "drop_capabilities": 1}
    assert 1 <= len(changed) <= allowed.get(name, 1), changed


def _flat(config: dict[str, Any]) -> dict[str, str]:
    host = {f"HostConfig.{key}": value for key, value in config["HostConfig"].items()}
    return {key: json.dumps(value) for key, value in ({**config, **host}).items() if key != "HostConfig"}
