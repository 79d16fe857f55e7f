"""Paired comparisons of a study: its frozen analysis plan, and questions that were asked later.

Rules:
1. Seed, level, multiplicity and interval method are those of the frozen plan; another interval method is named in the
   output.
2. Holm adjusts over all comparisons that the plan fixed, whichever of them is shown.
3. A question that the plan does not hold is exploratory.
4. Nobody steers a running study by its scores: while cells are open a comparison is refused, or recorded as unblinding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cells.design.plan import Plan
from cells.errors import UsageError
from flows.status import StudyState
from flows.tables import record_unblinding, study_rows
from scoring.compare import CompareReport, ComparisonPlan, PlannedComparison, compare_rows
from scoring.statistics.cell_columns import outcome_rows
from scoring.statistics.interval import IntervalMethod
from scoring.statistics.outcomes import OutcomeKind, kind_of


@dataclass(frozen=True)
class Asked:
    """What a user asks of a study: two arms and outcomes."""

    control: str
    treatment: str
    outcomes: tuple[str, ...]


def analysis_plan(plan: Plan, interval: str | None = None) -> ComparisonPlan:
    """The analysis that the plan fixed; `interval` names another method for the intervals."""
    analysis = plan.design.get("analysis") or {}
    return ComparisonPlan(
        comparisons=tuple(
            PlannedComparison(one["control"], one["treatment"], tuple(one["outcomes"]), one["cluster"])
            for one in plan.design.get("comparisons") or ()
        ),
        seed=plan.seed,
        alpha=float(analysis.get("alpha", 0.05)),
        multiplicity=str(analysis.get("multiplicity", "holm")),
        interval=IntervalMethod(interval or analysis.get("interval", "auto")),
    )


def with_asked(plan: ComparisonPlan, asked: Asked) -> ComparisonPlan:
    """The plan and those of the asked questions that it does not hold, as exploratory ones."""
    pair = (asked.control, asked.treatment)
    held = {name for one in plan.comparisons if (one.control, one.treatment) == pair for name in one.outcomes}
    more = tuple(name for name in asked.outcomes if name not in held)
    if not more:
        return plan
    return replace(plan, comparisons=(*plan.comparisons, PlannedComparison(*pair, more, planned=False)))


def compare_study(
    state: StudyState, asked: Asked | None, *, interval: str | None = None, unblind: bool = False
) -> CompareReport:
    """The planned comparisons of a study, or the asked one. UsageError while cells are open (rule 4), for an unknown
    arm or outcome, or when nothing is planned and nothing asked."""
    if state.is_open and not unblind:
        raise UsageError(
            f"study {state.study.plan.study}: {len(state.pending)} cells are open, so verdicts are hidden. "
            "`assay run` goes on; --unblind compares now, and the ledger and the report will say so"
        )
    plan = analysis_plan(state.study.plan, interval)
    if asked is not None:
        _refuse_unknown(state, asked)
        plan = with_asked(plan, asked)
    if not plan.comparisons:
        raise UsageError(
            f"study {state.study.plan.study}: its plan has no [[comparisons]]; ask with --control ARM --treatment ARM"
        )
    if state.is_open:
        record_unblinding(state, "compare")
    cells = study_rows(state, unblind=unblind).compared
    report = compare_rows(outcome_rows(cells, list(plan.outcomes)), plan)
    return report if asked is None else _only(report, asked)


def compared_arms(plan: Plan) -> list[str]:
    """Arms that can be compared, in the order of the study file."""
    controls = {cell.spec.arm.name for cell in plan.cells if cell.is_control}
    return [name for name in plan.design["arms"] if name not in controls]


def _refuse_unknown(state: StudyState, asked: Asked) -> None:
    arms = compared_arms(state.study.plan)
    for arm in (asked.control, asked.treatment):
        if arm not in arms:
            raise UsageError(f"asked for the arm {arm!r}; arms that can be compared: {', '.join(arms)}")
    for outcome in asked.outcomes:
        if kind_of(outcome) is OutcomeKind.NUMBER:
            raise UsageError(
                f"asked for the outcome {outcome!r}; outcomes are `resolved` and the numbers of a cells table"
            )


def _only(report: CompareReport, asked: Asked) -> CompareReport:
    return CompareReport(tuple(one for one in report.comparisons if _answers(one, asked)))


def _answers(comparison: Any, asked: Asked) -> bool:
    question = comparison.question
    return (question.control, question.treatment) == (asked.control, asked.treatment) and (
        question.outcome in asked.outcomes
    )
