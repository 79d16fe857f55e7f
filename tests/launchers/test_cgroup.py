"""Counters of control groups, read from recorded files of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells.incell.agent.counters import read_group
from launchers.cgroup import NAMES, locate, sample

ID = "5f" * 32
# Recorded from a container of 256 MiB in which one child was killed for memory.
V1 = {
    "cpuacct/cpuacct.usage": "867466123\n",
    "cpu/cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 153000000\n",
    "memory/memory.max_usage_in_bytes": "335544320\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    "pids/pids.current": "2\n",
}
V2 = {
    "cpu.stat": "usage_usec 867466\nuser_usec 600000\nsystem_usec 267466\nnr_periods 9\nnr_throttled 2\n"
    "throttled_usec 153000\nnr_bursts 0\nburst_usec 0\n",
    "memory.peak": "335544320\n",
    "memory.events": "low 0\nhigh 0\nmax 31\noom 1\noom_kill 1\noom_group_kill 0\n",
    "pids.current": "2\n",
}
EXPECTED = {
    "cpu_s": 0.867466,
    "throttled_s": 0.153,
    "periods": 9,
    "throttled_periods": 2,
    "memory_peak_mb": 320.0,
    "oom_kills": 1,
    "pids": 2,
}


def recorded(mount: Path, files: dict[str, str], group: str) -> Path:
    """The files below `mount`, the group's path after the controller of version 1."""
    for name, content in files.items():
        controller, _, leaf = name.rpartition("/")
        path = mount / controller / group / leaf
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    if files is V2:
        (mount / "cgroup.controllers").write_text("cpu memory pids\n")
    return mount


@pytest.mark.parametrize("files", [V1, V2], ids=["v1", "v2"])
@pytest.mark.parametrize("group", ["", f"docker/{ID}"])
def test_both_versions_say_the_same(tmp_path: Path, files: dict[str, str], group: str) -> None:
    found = read_group(str(recorded(tmp_path, files, group)), group)
    assert found == pytest.approx(EXPECTED)
    assert set(found) == set(NAMES)


@pytest.mark.parametrize("files", [V1, V2], ids=["v1", "v2"])
def test_what_the_kernel_does_not_tell_is_unknown_and_never_zero(tmp_path: Path, files: dict[str, str]) -> None:
    few = {name: content for name, content in files.items() if "memory" not in name and "cpu.stat" not in name}
    mount = recorded(tmp_path, few, "g")
    if files is V2:
        (mount / "cgroup.controllers").write_text("pids\n")
    found = read_group(str(mount), "g")
    assert found["memory_peak_mb"] is None and found["oom_kills"] is None and found["throttled_s"] is None
    assert found["pids"] == 2


def test_a_group_that_is_gone_is_unknown(tmp_path: Path) -> None:
    assert sample("docker/gone", recorded(tmp_path, V2, "docker/other")) == dict.fromkeys(NAMES)
    assert sample(None) == dict.fromkeys(NAMES)


@pytest.mark.parametrize("group", [f"docker/{ID}", f"system.slice/docker-{ID}.scope"])
@pytest.mark.parametrize("files", [V1, V2], ids=["v1", "v2"])
def test_the_usual_places_are_found_without_asking_the_engine(
    tmp_path: Path, files: dict[str, str], group: str
) -> None:
    def never() -> int | None:
        raise AssertionError("the engine was asked")

    assert locate(ID, never, recorded(tmp_path, files, group)) == group


def test_an_unusual_place_is_found_by_the_process(tmp_path: Path) -> None:
    mount = recorded(tmp_path, V2, "elsewhere")
    assert locate(ID, lambda: None, mount) is None
    assert locate(ID, lambda: 2**22 + 1, mount) is None
