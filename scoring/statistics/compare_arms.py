"""Compares two arms in one group of a table, on one outcome: pairs, exact tests, difference, interval, bounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scoring.statistics.arm_tasks import GroupRows
from scoring.statistics.clusters import ClusterSums
from scoring.statistics.comparison import Comparison, Discordance, PairedMeans, PairedTests, Question
from scoring.statistics.comparison_notes import notes_of
from scoring.statistics.estimate import FloatArray, NotEstimable, PValue, generator_for
from scoring.statistics.exact_tests import TIE_TOLERANCE, mcnemar_exact, sign_exact, sign_flip_test, signs
from scoring.statistics.interval import IntervalSettings, difference_interval
from scoring.statistics.outcomes import OutcomeKind
from scoring.statistics.pairing import TaskPairs, pair_tasks

SCALED = (OutcomeKind.BINARY, OutcomeKind.FRACTION)
"""Kinds whose values lie from 0 to 1: their differences are bounded, and missing values can be bounded."""


@dataclass(frozen=True)
class ComparisonSettings:
    """How to compute: the seed of all draws, the interval, the draws of a permutation test that cannot be exact."""

    seed: int
    interval: IntervalSettings = field(default_factory=IntervalSettings)
    permutation_draws: int = 99_999


def compare_arms(rows: GroupRows, question: Question, settings: ComparisonSettings) -> Comparison:
    """Answer one question from the rows of its group; the Holm adjustment is made later, over the whole family."""
    pairs = pair_tasks(rows, question.control, question.treatment, question.outcome)
    sums = pairs.by_cluster()
    comparison = Comparison(
        question=question,
        pairs=pairs,
        clusters=len(sums.names),
        discordance=_discordance(pairs, question.kind),
        tests=_tests(pairs, sums, question, settings),
        means=_means(pairs, sums, question, settings),
        bounds=_bounds(pairs, question.kind),
        difference_without_contaminated=_without_contaminated(rows, question, pairs),
        notes=(),
    )
    return replace(comparison, notes=notes_of(comparison, rows.table.arm.names, settings.interval.alpha))


def _discordance(pairs: TaskPairs, kind: OutcomeKind) -> Discordance | None:
    if kind is not OutcomeKind.BINARY or pairs.samples > 1 or not pairs.paired.any():
        return None
    control, treatment = pairs.control.means == 1, pairs.treatment.means == 1
    return Discordance(
        both=pairs.named(pairs.paired & control & treatment),
        control_only=pairs.named(pairs.paired & control & ~treatment),
        treatment_only=pairs.named(pairs.paired & ~control & treatment),
        neither=pairs.named(pairs.paired & ~control & ~treatment),
    )


def _tests(
    pairs: TaskPairs, sums: ClusterSums, question: Question, settings: ComparisonSettings
) -> PairedTests | NotEstimable:
    differences = pairs.differences
    by_task = _flip_test(differences, "permutation", question, settings)
    by_cluster = _flip_test(sums.sums, "permutation by cluster", question, settings)
    if isinstance(by_task, NotEstimable) or isinstance(by_cluster, NotEstimable):
        return NotEstimable("no pairs")
    up, down, tie = signs(differences)
    exact = question.kind is OutcomeKind.BINARY and pairs.samples == 1
    return PairedTests(
        up=up,
        down=down,
        tie=tie,
        sign=sign_exact(up, down),
        permutation=by_task,
        permutation_by_cluster=by_cluster,
        mcnemar=mcnemar_exact(down, up) if exact else None,
    )


def _flip_test(
    differences: FloatArray, purpose: str, question: Question, settings: ComparisonSettings
) -> PValue | NotEstimable:
    rng = generator_for(settings.seed, *question.labels, purpose)
    return sign_flip_test(differences, rng, settings.permutation_draws)


def _means(
    pairs: TaskPairs, sums: ClusterSums, question: Question, settings: ComparisonSettings
) -> PairedMeans | NotEstimable:
    if not pairs.paired.any():
        return NotEstimable("no pairs")
    control, treatment = (float(side.means[pairs.paired].mean()) for side in (pairs.control, pairs.treatment))
    scaled = question.kind in SCALED
    chosen = replace(settings.interval, limits=(-1.0, 1.0)) if scaled else settings.interval
    rng = generator_for(settings.seed, *question.labels, "interval")
    interval = difference_interval(sums, chosen, rng, (control + treatment) / 2 if scaled else None)
    difference = sums.mean if abs(sums.mean) > TIE_TOLERANCE else 0.0
    return PairedMeans(control, treatment, difference, interval)


def _bounds(pairs: TaskPairs, kind: OutcomeKind) -> tuple[float, float] | None:
    if not pairs.paired.any():
        return None
    if kind in SCALED:
        return pairs.bounds()
    return None if pairs.missing else (float(pairs.differences.mean()),) * 2


def _without_contaminated(rows: GroupRows, question: Question, pairs: TaskPairs) -> float | None:
    if not pairs.contaminated:
        return None
    arms = (question.control, question.treatment)
    clean = pair_tasks(rows, *arms, question.outcome, without_contaminated=True).differences
    return float(np.mean(clean)) if len(clean) else None
