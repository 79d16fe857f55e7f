"""How the state of a study is told to people: `assay status`, and the end of `assay run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cells.evidence.history import Unit
from flows.status import StudyState
from flows.text import duration, money, table


def status_text(document: dict[str, Any]) -> str:
    """The status document in words."""
    cells = document["cells"]
    parts = [headline(document), table(("outcome", "cells"), sorted(document["outcomes"].items()))]
    if document["verdicts"] is not None:
        parts.append(table(("verdict", "cells"), document["verdicts"].items()))
    elif cells["accepted"]:
        parts.append("verdicts are hidden while cells are open (--unblind shows them, and is recorded)")
    if document["running"]:
        rows = [(row["cell"], row["attempt"], row["phase"], duration(row["age_s"])) for row in document["running"]]
        parts.append(table(("running", "attempt", "phase", "age"), rows))
    phases = {phase: seconds for phase, seconds in document["phase_s"].items() if seconds}
    if phases:
        parts.append("time by phase: " + ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in phases.items()))
    return "\n\n".join(part for part in parts if part)


def headline(document: dict[str, Any]) -> str:
    """The most important first: everything lost, tasks withheld, then the counts."""
    cells, cost = document["cells"], document["cost"]
    lines = []
    if cells["total"] and document["infra_lost"] and not cells["accepted"]:
        lines.append(f"NO CELL HAS A RESULT: {document['infra_lost']} attempts were lost to the infrastructure")
    lines.append(
        f"study {document['study']}: {cells['accepted']} of {cells['total']} cells accepted, "
        f"{cells['running']} running, {cells['pending']} pending; "
        f"{document['infra_lost']} attempts lost, {document['contaminated']} contaminated"
    )
    lines += [f"withheld: task {task}: {reason}" for task, reason in document["withheld"].items()]
    if document.get("paused"):
        lines.append(f"paused: {document['paused']}")
    spent = money(cost["amount"], cost["currency"]) if cost else "no known cost"
    unknown = f" ({document['cost_unknown']} cells of unknown cost)" if document["cost_unknown"] else ""
    lines.append(f"spent: {spent}{unknown}; agents worked {duration(document['wall_s'])}")
    return "\n".join(lines)


def result_rows(state: StudyState) -> list[dict[str, Any]]:
    """One row an arm: cells, how they ended, verdicts, money. Verdicts are None while cells are open."""
    arms: dict[str, list[Unit | None]] = {}
    for cell in state.cells:
        arms.setdefault(cell.spec.arm.name, []).append(state.unit(cell))
    return [_arm_row(name, units, blind=state.is_open) for name, units in arms.items()]


def result_table(state: StudyState) -> str:
    """The summary table at the end of a run."""
    rows = result_rows(state)
    return table(tuple(rows[0]), [tuple(row.values()) for row in rows]) if rows else "no cells"


def _arm_row(name: str, units: list[Unit | None], *, blind: bool) -> dict[str, Any]:
    done = [unit.detail for unit in units if unit is not None]
    verdicts = Counter(str(detail["verdict"]) for detail in done)
    valid = verdicts["resolved"] + verdicts["unresolved"]
    share = f"{verdicts['resolved'] / valid:.1%}" if valid else None
    return {
        "arm": name,
        "cells": len(units),
        "accepted": len(done),
        "resolved": None if blind else verdicts["resolved"],
        "unresolved": None if blind else verdicts["unresolved"],
        "invalid": None if blind else verdicts["invalid"],
        "share": None if blind else share,
        "contaminated": sum(bool(detail.get("contaminated")) for detail in done),
        "outcomes": _outcomes(done),
    }


def _outcomes(details: Iterable[dict[str, Any]]) -> str:
    counted = Counter(str(detail["outcome"]) for detail in details)
    return ", ".join(f"{outcome} {count}" for outcome, count in counted.most_common())
