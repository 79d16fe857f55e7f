"""How many cells fit on this machine at once: workers x (memory + disk) against what is free."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cells.design.cell import CellLimits

SHARE = 0.85
"""Part of the available memory that cells may take; the rest is for engine, gateway and page cache."""
DEFAULT_WORKERS = 4


@dataclass(frozen=True)
class Admission:
    """Workers that may run, and why they are fewer than asked, if they are."""

    workers: int
    note: str | None


def admit(asked: int | None, limits: Iterable[CellLimits], available_mb: int) -> Admission:
    """`asked` workers, or the default, reduced to what the memory holds for the largest cells; at least one."""
    wanted = asked or min(DEFAULT_WORKERS, 2 * (os.cpu_count() or 1))
    need = max((cell_memory_mb(cell) for cell in limits), default=0)
    fitting = max(1, int(available_mb * SHARE) // need) if need else wanted
    if wanted <= fitting:
        return Admission(wanted, None)
    return Admission(
        fitting,
        f"{wanted} workers need {wanted * need} MiB for cells of {need} MiB (memory and disk), "
        f"{available_mb} MiB are available; "
        f"running with {fitting}",
    )


def cell_memory_mb(limits: CellLimits) -> int:
    """What a cell's agent may take of the machine's memory: its own, and its disk while that lives in memory."""
    return limits.memory_mb + (limits.disk_mb if limits.disk_backing == "memory" else 0)


def available_memory_mb() -> int:
    """MemAvailable of this machine in MiB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return 0
