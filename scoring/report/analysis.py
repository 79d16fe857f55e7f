"""The numbers of a report: planned comparisons, noise floors, arms by themselves, drift. Pure, by the plan's seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scoring.compare import CompareReport, ComparisonPlan, compare_table
from scoring.report.contents import StudyContents
from scoring.statistics.arm_table import ArmSummary, arm_table
from scoring.statistics.beside_comparisons import drift_of_cells, floor_of_one_arm, floor_of_same_arms
from scoring.statistics.cell_columns import outcome_rows
from scoring.statistics.comparison import Comparison
from scoring.statistics.drift import Drift
from scoring.statistics.estimate import NotEstimable
from scoring.statistics.noise_floor import NoiseFloor
from scoring.statistics.outcomes import OutcomeTable, kind_of

MAIN_OUTCOME = "resolved"
AMOUNTS = ("cost", "input_tokens", "output_tokens", "turns", "run_s", "wall_s")


@dataclass(frozen=True)
class Analysis:
    """Every estimate that a report shows."""

    plan: ComparisonPlan
    comparisons: CompareReport
    floors: Mapping[str, NoiseFloor | NotEstimable]
    """By outcome of the plan."""
    arms: Mapping[str, Mapping[str, ArmSummary]]
    """Outcome -> arm -> summary."""
    drift: Drift | NotEstimable

    @property
    def primary(self) -> Comparison | None:
        """The comparison that the claim is about: the first planned one."""
        return next((one for one in self.comparisons.comparisons if one.question.planned), None)


def analyse(contents: StudyContents, plan: ComparisonPlan) -> Analysis:
    """All estimates of a study whose verdicts may be seen."""
    outcomes = tuple(dict.fromkeys((MAIN_OUTCOME, *plan.outcomes, *AMOUNTS)))
    rows = outcome_rows(contents.compared, outcomes)
    table = OutcomeTable.of_rows(rows, {name: kind_of(name) for name in outcomes})
    return Analysis(
        plan=plan,
        comparisons=compare_table(table, plan),
        floors={outcome: _floor(contents, table, plan, outcome) for outcome in plan.outcomes},
        arms={outcome: _arms(table, outcome, plan.alpha) for outcome in outcomes} if rows else {},
        drift=drift_of_cells(contents.compared, MAIN_OUTCOME, plan.seed),
    )


def _floor(
    contents: StudyContents, table: OutcomeTable, plan: ComparisonPlan, outcome: str
) -> NoiseFloor | NotEstimable:
    """From A/A arms where the study has them, else from the samples of the control of the first comparison."""
    if not len(table):
        return NotEstimable("no cell has a result")
    if contents.design.same_arms:
        return floor_of_same_arms(table, outcome, contents.design.same_arms, plan.seed)
    return floor_of_one_arm(table, outcome, plan.comparisons[0].control, plan.seed)


def _arms(table: OutcomeTable, outcome: str, alpha: float) -> dict[str, ArmSummary]:
    return {summary.arm: summary for summary in arm_table(table, 0, outcome, alpha)}
