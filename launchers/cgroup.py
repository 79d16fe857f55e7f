"""Where the control group of a container lies here, and one sample of it; unknown where it cannot be seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cells.incell.agent.counters import read_group

Counters = dict[str, int | float | None]

MOUNT = Path("/sys/fs/cgroup")
NAMES = ("cpu_s", "throttled_s", "periods", "throttled_periods", "memory_peak_mb", "oom_kills", "pids")


def locate(container_id: str, pid: Callable[[], int | None], mount: Path = MOUNT) -> str | None:
    """The group of a running container, as a path below the mount.

    Both of Docker's usual places are tried before `pid` (one call to the engine) is asked for /proc/PID/cgroup.
    """
    controllers = mount if (mount / "cgroup.controllers").exists() else mount / "memory"
    for group in (f"docker/{container_id}", f"system.slice/docker-{container_id}.scope"):
        if (controllers / group).is_dir():
            return group
    found = pid()
    return None if not found else _group_of(found)


def sample(group: str | None, mount: Path = MOUNT) -> Counters:
    """One sample; all unknown when the group is not known or already gone."""
    return dict.fromkeys(NAMES) if group is None else read_group(str(mount), group)


def _group_of(pid: int) -> str | None:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    places = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines if line.count(":") >= 2}
    for controller in ("memory", ""):
        if controller in places and places[controller] != "/":
            return places[controller].lstrip("/")
    return None
