"""Reads the counters of one control group, versions 1 and 2: in a cell its own, on the host a cell's.

Standard library only, Python 3.9+. Unknown is None, never 0.
Sources: kernel documentation, cgroup-v1/memory, cgroup-v1/cpuacct, scheduler/sched-bwc, cgroup-v2.
"""

from __future__ import annotations

import os

V1_CONTROLLERS = ("memory", "cpuacct", "cpu", "pids")


def read_group(mount: str, group: str = "") -> dict[str, int | float | None]:
    """One sample of `group` (a path below the mount; empty: the group that the mount shows at its root).

    cpu_s, throttled_s: seconds; periods, throttled_periods: scheduler periods; memory_peak_mb: MiB; the rest: counts.
    """
    if os.path.exists(os.path.join(mount, "cgroup.controllers")):
        return read_v2(os.path.join(mount, group))
    return read_v1({name: os.path.join(mount, name, group) for name in V1_CONTROLLERS})


def read_v1(directories: dict[str, str]) -> dict[str, int | float | None]:
    """A sample from version 1: controller name -> directory of the group."""
    cpu = _pairs(os.path.join(directories["cpu"], "cpu.stat"))
    return {
        "cpu_s": _scaled(_number(os.path.join(directories["cpuacct"], "cpuacct.usage")), 1e9),
        "throttled_s": _scaled(cpu.get("throttled_time"), 1e9),
        "periods": cpu.get("nr_periods"),
        "throttled_periods": cpu.get("nr_throttled"),
        "memory_peak_mb": _scaled(_number(os.path.join(directories["memory"], "memory.max_usage_in_bytes")), 1 << 20),
        "oom_kills": _pairs(os.path.join(directories["memory"], "memory.oom_control")).get("oom_kill"),
        "pids": _number(os.path.join(directories["pids"], "pids.current")),
    }


def read_v2(directory: str) -> dict[str, int | float | None]:
    """A sample from version 2: the directory of the group."""
    cpu = _pairs(os.path.join(directory, "cpu.stat"))
    return {
        "cpu_s": _scaled(cpu.get("usage_usec"), 1e6),
        "throttled_s": _scaled(cpu.get("throttled_usec"), 1e6),
        "periods": cpu.get("nr_periods"),
        "throttled_periods": cpu.get("nr_throttled"),
        "memory_peak_mb": _scaled(_number(os.path.join(directory, "memory.peak")), 1 << 20),
        "oom_kills": _pairs(os.path.join(directory, "memory.events")).get("oom_kill"),
        "pids": _number(os.path.join(directory, "pids.current")),
    }


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _pairs(path: str) -> dict[str, int]:
    words = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _scaled(value: int | None, unit: float) -> float | None:
    return None if value is None else round(value / unit, 6)
