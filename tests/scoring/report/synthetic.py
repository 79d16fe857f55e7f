"""Contents of a report without a study behind them: any number of cells, any names."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scoring.columns import NAMES
from scoring.compare import ComparisonPlan, PlannedComparison
from scoring.report.contents import Design, Provenance, Reliability, Revision, Runtime, StudyContents

CONTROLS = ("nop", "oracle")


@dataclass(frozen=True)
class Synthetic:
    """What is varied. `rates`: chance of an arm to resolve a task, drawn from the names alone."""

    tasks: Sequence[str] = tuple(f"task-{number:02d}" for number in range(12))
    arms: Sequence[str] = ("control", "treatment")
    samples: int = 2
    rates: Mapping[str, float] = field(default_factory=lambda: {"treatment": 0.9, "control": 0.3})
    study: str = "synthetic"
    missing: int = 0
    """So many cells of the first arm have no result."""
    contaminated: int = 0
    blind: bool = False
    revisions: tuple[Revision, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    unblinded: tuple[str, ...] = ()
    runtimes: int = 1
    same_arms: tuple[tuple[str, str], ...] = ()


def contents(wanted: Synthetic = Synthetic()) -> StudyContents:
    """The contents that a study of these cells would give."""
    cells = [
        (task, arm, sample) for task in wanted.tasks for sample in range(1, wanted.samples + 1) for arm in wanted.arms
    ]
    rows = [_row(wanted, place, *cell) for place, cell in enumerate(cells)]
    lacking = [row for row in rows if row["arm"] == wanted.arms[0]][: wanted.missing]
    left = [row for row in rows if row not in lacking] if lacking else rows
    for row in left[: wanted.contaminated]:
        row["contaminated"] = True
    phases = {"prepare": 0.5, "run": 2.0, "verify": 1.0}
    return StudyContents(
        design=_design(wanted),
        rows=tuple(left),
        open_cells=tuple(_without_result(row) for row in lacking),
        phases=dict.fromkeys(wanted.arms, phases),
        reliability=_reliability(wanted, len(rows), len(left)),
        provenance=_provenance(wanted),
        blind=wanted.blind,
    )


def plan(wanted: Synthetic = Synthetic(), outcomes: tuple[str, ...] = ("resolved", "f2p_fraction")) -> ComparisonPlan:
    """Every arm against the first, with few resamples: tests are quick."""
    first, *others = wanted.arms
    comparisons = tuple(PlannedComparison(first, other, outcomes) for other in others)
    return ComparisonPlan(comparisons, seed=7, resamples=499, permutation_draws=999)


def _row(wanted: Synthetic, order: int, task: str, arm: str, sample: int) -> dict[str, Any]:
    draw = hashlib.sha256(f"{task}/{arm}/{sample}".encode("utf-8", "surrogatepass")).digest()
    resolved = int(draw[0] / 256 < wanted.rates.get(arm, 0.5))
    known = {
        "study": wanted.study,
        "cell_id": f"sha256:{draw.hex()}",
        "bundle_sha256": f"sha256:{draw.hex()[::-1]}",
        "attempt": "a001",
        "task": task,
        "repository": f"repository {wanted.tasks.index(task) % 6}",
        "arm": arm,
        "harness": "reference",
        "model": "fixed",
        "sample": sample,
        "order": order,
        "outcome": "completed",
        "ended": "completed",
        "patch": "present",
        "verdict": None if wanted.blind else "resolved" if resolved else "unresolved",
        "reason": None if wanted.blind else "tests_passed" if resolved else "tests_failed",
        "resolved": None if wanted.blind else resolved,
        "f2p_passed": resolved,
        "f2p_total": 1,
        "f2p_fraction": float(resolved),
        "turns": 3 + draw[1] % 9,
        "requests": 4 + draw[1] % 9,
        "input_tokens": 1000 + 17 * draw[2],
        "output_tokens": 100 + draw[3],
        "cost": f"0.00{draw[4]:03d}",
        "currency": "USD",
        "run_s": 1 + draw[5] / 97,
        "wall_s": 3 + draw[5] / 97,
        "contaminated": False,
    }
    return dict.fromkeys(NAMES) | known


def _without_result(row: Mapping[str, Any]) -> dict[str, Any]:
    place = ("study", "cell_id", "task", "repository", "arm", "sample", "order")
    return dict.fromkeys(NAMES) | {name: row[name] for name in place} | {"verdict": "not_run"}


def _design(wanted: Synthetic) -> Design:
    return Design(
        study=wanted.study,
        plan_sha256="sha256:" + "1" * 64,
        revision=1 + len(wanted.revisions),
        seed=7,
        arms=tuple(wanted.arms),
        controls=(),
        tasks=len(wanted.tasks),
        repositories=min(6, len(wanted.tasks)),
        samples=wanted.samples,
        same_arms=wanted.same_arms,
        without_control=(),
    )


def _reliability(wanted: Synthetic, planned: int, accepted: int) -> Reliability:
    return Reliability(
        planned=planned,
        accepted=accepted,
        attempts=planned,
        lost={"engine_lost": planned - accepted} if planned > accepted else {},
        retried_cells=0,
        controls={"total": 0, "done": 0, "as_expected": 0},
        withheld=wanted.withheld,
        dropped={},
        superseded=0,
        unblinded=wanted.unblinded,
        cost="1.00 USD",
        cost_unknown=0,
    )


def _provenance(wanted: Synthetic) -> Provenance:
    return Provenance(
        facts=(("plan", "plan.lock.json sha256:" + "1" * 64), ("ledger head", "sha256:" + "2" * 64)),
        revisions=wanted.revisions,
        runtimes=tuple(
            Runtime(f"sha256:{number:064d}", 1, {"kernel": str(number)}) for number in range(wanted.runtimes)
        ),
        images={"sha256:" + "3" * 64: tuple(wanted.tasks)},
        tasks={
            task: "sha256:" + hashlib.sha256(task.encode("utf-8", "surrogatepass")).hexdigest() for task in wanted.tasks
        },
    )
