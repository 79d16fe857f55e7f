"""Which cells of a plan a run takes on: what the options choose, controls of chosen tasks always among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cells.design.matrix import PlannedCell
from cells.design.plan import Plan
from cells.errors import UsageError


@dataclass(frozen=True)
class RunOptions:
    """What the command line asks beyond the study file. None selects everything, or the default."""

    workers: int | None = None
    limit: int | None = None
    tasks: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    samples: tuple[int, ...] = ()
    max_infra_retries: int = 2
    accept_runtime_change: bool = False
    prefect_api_url: str | None = None


def select(plan: Plan, options: RunOptions) -> tuple[PlannedCell, ...]:
    """The cells that the options choose: controls of chosen tasks always among them. UsageError for unknown names."""
    cells = plan.cells
    _known("task", options.tasks, {cell.spec.task for cell in cells})
    _known("arm", options.arms, {cell.spec.arm.name for cell in cells})
    _known("sample", options.samples, {cell.spec.sample for cell in cells})
    wanted = [cell for cell in cells if _is_chosen(cell, options)]
    if options.limit is None:
        return tuple(wanted)
    arms = [cell for cell in wanted if not cell.is_control][: options.limit]
    tasks = {cell.spec.task for cell in arms}
    controls = [cell for cell in wanted if cell.is_control and cell.spec.task in tasks]
    return (*controls, *arms)


def in_plan_order(plan: Plan, chosen: tuple[PlannedCell, ...]) -> list[PlannedCell]:
    """The chosen cells as the frozen plan has them, in its order."""
    ids = {cell.spec.cell_id for cell in chosen}
    return [cell for cell in plan.cells if cell.spec.cell_id in ids]


def _is_chosen(cell: PlannedCell, options: RunOptions) -> bool:
    spec = cell.spec
    if options.tasks and spec.task not in options.tasks:
        return False
    if cell.is_control:
        return True
    return (not options.arms or spec.arm.name in options.arms) and (
        not options.samples or spec.sample in options.samples
    )


def _known(kind: str, asked: tuple[Any, ...], there: set[Any]) -> None:
    for name in asked:
        if name not in there:
            raise UsageError(f"asked for {kind} {name!r}; the study has {', '.join(map(str, sorted(there)))}")
