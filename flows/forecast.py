"""What the open cells of a study will cost in time, money and disk, judged by the cells that already ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from cells.design.matrix import PlannedCell
from cells.evidence.history import Unit
from flows.status import StudyState


@dataclass(frozen=True)
class Forecast:
    """Totals over `cells` open cells; None where no cell that ran tells. Seconds are worker time, not wall."""

    cells: int
    based_on: int
    cost: Decimal | None
    currency: str | None
    slot_s: float | None
    disk_bytes: int | None


def forecast(state: StudyState) -> Forecast:
    """Mean of the same arm's accepted cells for each open cell, else of all accepted cells."""
    done = [(cell, unit) for cell in state.cells if (unit := state.unit(cell)) is not None]
    by_arm: dict[str, list[Unit]] = {}
    for cell, unit in done:
        by_arm.setdefault(cell.spec.arm.name, []).append(unit)
    everything = [unit for _, unit in done]
    samples = [by_arm.get(cell.spec.arm.name, everything) for cell in state.pending]
    costs = [_mean_cost(units) for units in samples]
    return Forecast(
        cells=len(samples),
        based_on=len(done),
        cost=sum((cost for cost in costs if cost is not None), Decimal(0)) if _all_known(costs) else None,
        currency=next((str(unit.detail["currency"]) for unit in everything if unit.detail.get("currency")), None),
        slot_s=_total(_mean(units, "slot_s") for units in samples),
        disk_bytes=None if (total := _total(_mean(units, "bytes") for units in samples)) is None else round(total),
    )


def disk_needed_mb(cells: Iterable[PlannedCell], workers: int) -> int:
    """Memory or disk that the volumes of `workers` cells at once may take, in MiB."""
    sizes = sorted((cell.spec.limits.disk_mb for cell in cells), reverse=True)
    return sum(sizes[:workers])


def _mean_cost(units: list[Unit]) -> Decimal | None:
    known = [Decimal(str(unit.detail["cost"])) for unit in units if unit.detail.get("cost") is not None]
    return sum(known, Decimal(0)) / len(known) if known else None


def _mean(units: list[Unit], key: str) -> float | None:
    known = [float(unit.detail[key]) for unit in units if unit.detail.get(key) is not None]
    return sum(known) / len(known) if known else None


def _total(values: Iterable[float | None]) -> float | None:
    found = list(values)
    return sum(value for value in found if value is not None) if _all_known(found) else None


def _all_known(values: list[Decimal | None] | list[float | None]) -> bool:
    return bool(values) and all(value is not None for value in values)
