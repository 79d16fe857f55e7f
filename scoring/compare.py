"""Paired comparisons of arms: a plan and a table of cells in, a report of comparisons out, as JSON, text or Markdown.

Rules:
1. Each comparison of the plan is answered for each group of the table and each of its outcomes, in the order of the
   plan.
2. Holm adjusts over all planned comparisons of the report; a planned one without a p value still counts. Others are
   marked exploratory.
3. The same rows and seed give the same digits, whatever the order of the rows and whatever else is in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from cells.errors import UsageError
from scoring.outcome_file import ColumnMapping, load_mapping, read_outcome_file
from scoring.statistics.arm_tasks import group_rows
from scoring.statistics.compare_arms import ComparisonSettings, compare_arms
from scoring.statistics.comparison import Comparison, Question
from scoring.statistics.interval import IntervalMethod, IntervalSettings
from scoring.statistics.multiplicity import holm
from scoring.statistics.outcomes import OutcomeKind, OutcomeRow, OutcomeTable, kind_of
from scoring.statistics.record import detail_of, record_of
from scoring.statistics.rendering import comparisons_as_markdown, comparisons_as_text


@dataclass(frozen=True)
class PlannedComparison:
    """One `[[comparisons]]` of a study file. `planned` is False for a question asked after the plan was frozen."""

    control: str
    treatment: str
    outcomes: tuple[str, ...] = ("resolved",)
    cluster: Literal["repository", "task"] = "repository"
    planned: bool = True


@dataclass(frozen=True)
class ComparisonPlan:
    """The analysis plan: comparisons, the seed of all draws, and the `[analysis]` section.

    `kinds` overrides the kinds of outcomes.
    """

    comparisons: tuple[PlannedComparison, ...]
    seed: int
    alpha: float = 0.05
    multiplicity: str = "holm"
    interval: IntervalMethod = IntervalMethod.AUTO
    resamples: int = 9_999
    permutation_draws: int = 99_999
    kinds: Mapping[str, OutcomeKind] = field(default_factory=dict)

    def kind(self, outcome: str) -> OutcomeKind:
        """What the values of an outcome may be."""
        return self.kinds.get(outcome, kind_of(outcome))

    @property
    def outcomes(self) -> dict[str, OutcomeKind]:
        """All outcomes of the plan with their kinds."""
        return {name: self.kind(name) for comparison in self.comparisons for name in comparison.outcomes}

    @property
    def settings(self) -> ComparisonSettings:
        """The computing part of the plan."""
        interval = IntervalSettings(IntervalMethod(self.interval), self.alpha, self.resamples)
        return ComparisonSettings(self.seed, interval, self.permutation_draws)


@dataclass(frozen=True)
class CompareReport:
    """The comparisons of one plan, in its order."""

    comparisons: tuple[Comparison, ...]

    def as_json(self, *, details: bool = False) -> dict[str, object]:
        """The document of `assay compare --json`: fixed keys.

        With `details` a key `details` more in each record (names, denominators).
        """
        records = [record_of(comparison) for comparison in self.comparisons]
        if details:
            records = [
                record | {"details": detail_of(comparison)}
                for record, comparison in zip(records, self.comparisons, strict=True)
            ]
        return {"comparisons": records}

    def as_text(self) -> str:
        """A plain table for a terminal, then the discordant and unpaired tasks by name."""
        return comparisons_as_text(self.comparisons)

    def as_markdown(self) -> str:
        """The same as Markdown, for a pull request."""
        return comparisons_as_markdown(self.comparisons)


@dataclass(frozen=True)
class FileOptions:
    """How a file of outcomes is compared: seed, interval method and level, as the options of `assay compare --from`."""

    seed: int = 0
    interval: IntervalMethod = IntervalMethod.AUTO
    alpha: float = 0.05
    resamples: int = 9_999


def compare_rows(rows: Sequence[OutcomeRow], plan: ComparisonPlan) -> CompareReport:
    """Compare the arms of a study's cells.

    Raises RowProblem for a row that cannot be right, UsageError as `compare_table` does.
    """
    return compare_table(OutcomeTable.of_rows(rows, plan.outcomes), plan)


def compare_table(table: OutcomeTable, plan: ComparisonPlan) -> CompareReport:
    """The same from columns. A planned arm without cells is answered as not estimable.

    An unplanned one is refused (UsageError).
    """
    _refuse_unknown_arms(table, plan)
    tables = {"repository": table, "task": replace(table, cluster=table.task)}
    answers = []
    for group, labels in list(enumerate(table.groups)) or [(0, {})]:
        rows = {cluster: group_rows(tables[cluster], group) for cluster in {one.cluster for one in plan.comparisons}}
        answers += [
            compare_arms(rows[comparison.cluster], _question(labels, comparison, outcome, plan), plan.settings)
            for comparison in plan.comparisons
            for outcome in comparison.outcomes
        ]
    return CompareReport(_adjusted(answers) if plan.multiplicity == "holm" else tuple(answers))


def compare_file(path: Path, mapping: Path | ColumnMapping, options: FileOptions) -> CompareReport:
    """Compare the two arms of a TSV, CSV or Parquet file with one row a task (`assay compare --from`).

    Raises InputFileError.
    """
    columns = load_mapping(mapping) if isinstance(mapping, Path) else mapping
    table, kinds = read_outcome_file(path, columns)
    plan = ComparisonPlan(
        comparisons=(
            PlannedComparison(
                columns.control_name, columns.treatment_name, tuple(columns.outcomes), planned=columns.planned
            ),
        ),
        seed=options.seed,
        alpha=options.alpha,
        interval=options.interval,
        resamples=options.resamples,
        kinds=kinds,
    )
    return compare_table(table, plan)


def _refuse_unknown_arms(table: OutcomeTable, plan: ComparisonPlan) -> None:
    for comparison in plan.comparisons:
        for arm in (comparison.control, comparison.treatment):
            if arm not in table.arm.names and not comparison.planned:
                known = ", ".join(sorted(table.arm.names)) or "none"
                asked = f"comparison of {comparison.control} and {comparison.treatment}"
                raise UsageError(f"{asked}: arm {arm} has no cells here; arms: {known}")
        if comparison.control == comparison.treatment:
            raise UsageError(f"comparison of {comparison.control} with itself; name two arms")


def _question(labels: Mapping[str, str], comparison: PlannedComparison, outcome: str, plan: ComparisonPlan) -> Question:
    return Question(
        labels, comparison.control, comparison.treatment, outcome, plan.kind(outcome), planned=comparison.planned
    )


def _adjusted(answers: list[Comparison]) -> tuple[Comparison, ...]:
    family = [answer for answer in answers if answer.question.planned]
    adjusted = iter(holm([answer.p for answer in family]))
    return tuple(answer.with_holm(next(adjusted)) if answer.question.planned else answer for answer in answers)
