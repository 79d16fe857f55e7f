"""What a reader must be told beside the numbers of a comparison, in words."""

from __future__ import annotations

from collections.abc import Iterator

from scoring.statistics.comparison import Comparison, PairedMeans
from scoring.statistics.estimate import Interval, NotEstimable


def notes_of(comparison: Comparison, arms: tuple[str, ...], alpha: float) -> tuple[str, ...]:
    """The notes of a comparison; `arms` are those that the table holds."""
    return (*_on_design(comparison, arms), *_on_cells(comparison), *_on_result(comparison, alpha))


def _on_design(comparison: Comparison, arms: tuple[str, ...]) -> Iterator[str]:
    question, pairs = comparison.question, comparison.pairs
    if not question.planned:
        yield "exploratory: not a planned comparison"
    for arm in (question.control, question.treatment):
        if arm not in arms:
            yield f"not estimable: arm {arm} has no cells here (arms: {', '.join(arms) or 'none'})"
    if isinstance(comparison.means, NotEstimable):
        yield "not estimable: no task has a value in both arms"
    elif pairs.samples > 1:
        yield f"task means of up to {pairs.samples} samples"


def _on_cells(comparison: Comparison) -> Iterator[str]:
    pairs, outcome = comparison.pairs, comparison.question.outcome
    zeros = pairs.control.denominators.zero_totals, pairs.treatment.denominators.zero_totals
    if any(zeros):
        yield f"{outcome} has denominator 0 in {zeros[0]} control and {zeros[1]} treatment cells"
    if pairs.contaminated:
        without = comparison.difference_without_contaminated
        shown = "not estimable" if without is None else f"{without:+.4f}"
        yield f"{pairs.contaminated} contaminated cells included; difference without them: {shown}"
    if comparison.bounds is None and not isinstance(comparison.means, NotEstimable):
        yield "no bounds: cells are missing and the outcome has no fixed range"


def _on_result(comparison: Comparison, alpha: float) -> Iterator[str]:
    if isinstance(comparison.means, NotEstimable) or isinstance(comparison.tests, NotEstimable):
        return
    pairs = comparison.tests.up + comparison.tests.down + comparison.tests.tie
    if comparison.tests.tie == pairs:
        most = 100 * (1 - alpha ** (1 / pairs))
        bound = f"{100 * (1 - alpha):g} % bound for independent tasks"
        yield f"all {pairs} pairs are ties; at most {most:.1f} % of such tasks differ ({bound})"
    yield from _on_interval(comparison.means, comparison.tests.primary.p, alpha)


def _on_interval(means: PairedMeans, p: float, alpha: float) -> Iterator[str]:
    if not isinstance(means.interval, Interval):
        yield f"interval not estimable: {means.interval.reason}"
        return
    if means.interval.note:
        yield means.interval.note
    if p < alpha and means.interval.low <= 0 <= means.interval.high:
        yield "these tasks differ, but the interval for other clusters like these includes 0"
