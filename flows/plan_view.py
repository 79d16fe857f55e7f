"""How a plan and its changes are shown."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cells.design.diff import PlanDiff
from flows.forecast import Forecast, forecast
from flows.status import StudyState
from flows.text import duration, money, size, table

_SHOWN = 40


def plan_document(state: StudyState) -> dict[str, Any]:
    """The JSON of `assay plan`."""
    plan = state.study.plan
    cells = [
        {
            "order": cell.order,
            "cell": cell.spec.directory,
            "cell_id": cell.spec.cell_id,
            "task": cell.spec.task,
            "arm": cell.spec.arm.name,
            "sample": cell.spec.sample,
            "control": cell.spec.arm.control,
            "accepted": state.unit(cell) is not None,
        }
        for cell in plan.cells
    ]
    expected = forecast(state)
    return {
        "study": plan.study,
        "plan_sha256": plan.sha256,
        "revision": plan.revision,
        "seed": plan.seed,
        "tasks": [asdict(task) for task in plan.tasks],
        "cells": cells,
        "forecast": asdict(expected) | {"cost": None if expected.cost is None else str(expected.cost)},
        "directory": str(state.study.store.path),
    }


def plan_text(state: StudyState) -> str:
    """The plan for people: what, how many, in which order, at what price."""
    plan = state.study.plan
    arms = sorted({(cell.spec.arm.name, cell.spec.arm.harness, _model(cell.spec.arm.model)) for cell in plan.cells})
    rows = [
        (c.order, c.spec.task, c.spec.arm.name, c.spec.sample, c.spec.cell_id[7:19], "yes" if state.unit(c) else "")
        for c in plan.cells
    ]
    more = f"\n... and {len(rows) - _SHOWN} more (--json lists them)" if len(rows) > _SHOWN else ""
    return "\n\n".join(
        (
            f"study {plan.study}, revision {plan.revision}, plan {plan.sha256}\n{state.study.store.path}",
            f"{len(plan.tasks)} tasks in {len({task.repository for task in plan.tasks})} repositories, "
            f"{len(plan.cells)} cells, {len(state.pending)} still to run",
            table(("arm", "harness", "model"), arms),
            table(("order", "task", "arm", "sample", "cell", "accepted"), rows[:_SHOWN]) + more,
            forecast_text(forecast(state)),
        )
    )


def forecast_text(expected: Forecast) -> str:
    """One line: what the open cells will take."""
    if not expected.cells:
        return "nothing left to run"
    if not expected.based_on:
        return f"forecast: unknown, no cell has run yet ({expected.cells} to run); `assay run --limit 4` is a pilot"
    return (
        f"forecast for {expected.cells} cells (from {expected.based_on} that ran): "
        f"{money(expected.cost, expected.currency)}, {duration(expected.slot_s)} of worker time, "
        f"{size(expected.disk_bytes)} on disk"
    )


def diff_document(diff: PlanDiff) -> dict[str, Any]:
    """The JSON of `assay plan --diff`."""
    return {"kept": diff.kept, "changes": [asdict(change) for change in diff.changes], "design": list(diff.design)}


def diff_text(diff: PlanDiff) -> str:
    """Which cells would run again, are new or dropped, and why."""
    if diff.is_empty:
        return f"no difference: {diff.kept} cells as frozen"
    lines = [f"{diff.kept} cells stay as they are"]
    lines += [f"{c.kind:7} {c.task}/{c.arm}/{c.sample}: {'; '.join(c.why)}" for c in diff.changes]
    lines += [f"design  {line}" for line in diff.design]
    return "\n".join(lines)


def _model(model: dict[str, Any] | None) -> str | None:
    return None if model is None else str(model.get("model") or model["name"])
