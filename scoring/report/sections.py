"""The parts of the page that are tables of estimates: comparisons, and arms by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from scoring.report import numbers
from scoring.report.analysis import MAIN_OUTCOME, Analysis
from scoring.report.contents import StudyContents
from scoring.report.markup import Child, Html, cells_link, element, facts, join, table
from scoring.report.matrix import pairs_of
from scoring.statistics.arm_table import ArmSummary
from scoring.statistics.arm_tasks import ArmDenominators
from scoring.statistics.comparison import Comparison, PairedMeans, PairedTests
from scoring.statistics.estimate import Estimate, NotEstimable


def comparison_table(analysis: Analysis) -> Html:
    """One row a comparison, every number with its cells behind it."""
    pairs = pairs_of(analysis)
    rows = [
        _comparison_row(
            number, comparison, pairs.index((comparison.question.control, comparison.question.treatment)) + 1
        )
        for number, comparison in enumerate(analysis.comparisons.comparisons, 1)
    ]
    header = ("comparison", "outcome", "control", "treatment", "difference", "interval", "p", "p Holm", "pairs")
    return table((*header, "up", "down", "tie", "bounds"), rows, caption="Differences are treatment minus control")


def comparison_details(analysis: Analysis) -> Html:
    """What each comparison stands on, under a heading that opens."""
    return join(
        *(
            _detail(number, comparison, analysis)
            for number, comparison in enumerate(analysis.comparisons.comparisons, 1)
        )
    )


def arm_summary(contents: StudyContents, analysis: Analysis) -> Html:
    """One row an arm: denominators, share resolved with its interval, chances over samples, typical spending."""
    shown = analysis.arms.get(MAIN_OUTCOME, {})
    samples = range(1, contents.design.samples + 1)
    heads = ["arm", "cells", "with verdict", "missing", "contaminated", "resolved", "F2P fraction"]
    heads += [f"pass@{k}" for k in samples if k > 1][-1:] + [f"pass^{k}" for k in samples if k > 1][-1:]
    heads += ["cost", "output tokens", "turns", "run time"]
    rows = [_arm_row(arm, shown[arm], analysis) for arm in contents.design.arms if arm in shown]
    return table(heads, rows, caption="Means over tasks with cluster-robust intervals; medians of cells for spending")


def _comparison_row(number: int, comparison: Comparison, pair: int) -> list[Child]:
    question, means, tests = comparison.question, comparison.means, comparison.tests
    outcome, arms = question.outcome, [question.control, question.treatment]
    name = element("a", f"[{number}] {question.treatment} − {question.control}", href=f"#comparison-{number}")
    pairs = cells_link(str(int(comparison.pairs.paired.sum())), arm=arms)
    tail: list[Child] = [numbers.p_value(comparison.p), _holm(comparison), pairs, *_ways(comparison, tests, pair)]
    if not isinstance(means, PairedMeans):
        return [name, outcome, "–", "–", "not estimable", "–", *tail, "–"]
    bounds = comparison.bounds
    return [
        name,
        outcome,
        cells_link(numbers.value(means.control, outcome), arm=question.control),
        cells_link(numbers.value(means.treatment, outcome), arm=question.treatment),
        element("strong", numbers.difference(means.difference, outcome)),
        numbers.ends(comparison.interval, outcome),
        *tail,
        numbers.UNKNOWN if bounds is None else numbers.span(*bounds, outcome),
    ]


def _holm(comparison: Comparison) -> str:
    return numbers.p_value(comparison.p_holm) if comparison.question.planned else "exploratory"


def _ways(comparison: Comparison, tests: PairedTests | NotEstimable, pair: int) -> list[Child]:
    if not isinstance(tests, PairedTests):
        return ["–", "–", "–"]
    question = comparison.question
    if question.outcome != MAIN_OUTCOME:
        return [str(tests.up), str(tests.down), str(tests.tie)]
    arms = [question.control, question.treatment]
    counts = (("up", tests.up), ("down", tests.down), ("tie", tests.tie))
    return [cells_link(str(count), set=f"{pair}-{word}", arm=arms) for word, count in counts]


def _detail(number: int, comparison: Comparison, analysis: Analysis) -> Html:
    question = comparison.question
    title = f"[{number}] {question.treatment} − {question.control}: {question.outcome}"
    return element(
        "details", element("summary", title), facts(_detail_facts(comparison, analysis)), id=f"comparison-{number}"
    )


def _detail_facts(comparison: Comparison, analysis: Analysis) -> Iterator[tuple[Child, Child]]:
    pairs, tests, outcome = comparison.pairs, comparison.tests, comparison.question.outcome
    yield "planned", "yes, before the first cell" if comparison.question.planned else "no: exploratory"
    yield "tasks", f"{len(pairs.tasks)}, of them {len(pairs.unpaired)} unpaired, in {comparison.clusters} clusters"
    yield f"cells of {comparison.question.control}", denominators(pairs.control.denominators)
    yield f"cells of {comparison.question.treatment}", denominators(pairs.treatment.denominators)
    if isinstance(tests, PairedTests):
        yield "p", f"{numbers.p_value(comparison.p)} ({tests.primary.method})"
        yield "sign test", numbers.p_value(tests.sign.p)
        yield "permutation test", f"{numbers.p_value(tests.permutation.p)} ({tests.permutation.method})"
        yield "permutation by cluster", numbers.p_value(tests.permutation_by_cluster.p)
    if comparison.interval is not None:
        yield "interval", f"{numbers.ends(comparison.interval, outcome)} ({comparison.interval.method})"
    if comparison.bounds is not None:
        reach = numbers.span(*comparison.bounds, outcome)
        yield "bounds", f"{reach}: all missing cells against, or for, the treatment"
    without = comparison.difference_without_contaminated
    yield "without contaminated cells", numbers.difference(without, outcome)
    for name, tasks in _named_tasks(comparison):
        yield name, join(*(part for task in tasks for part in (cells_link(task, task=task), " "))) if tasks else "none"
    for note in comparison.notes:
        yield "note", note


def _named_tasks(comparison: Comparison) -> Iterator[tuple[str, tuple[str, ...]]]:
    discordance = comparison.discordance
    if discordance is not None:
        yield f"only {comparison.question.control}", discordance.control_only
        yield f"only {comparison.question.treatment}", discordance.treatment_only
    if comparison.pairs.unpaired:
        yield "unpaired", tuple(comparison.pairs.unpaired)


def denominators(side: ArmDenominators) -> str:
    """Every denominator of an arm in words."""
    states = "".join(f", {name} {count}" for name, count in side.states.items() if name != "valid")
    known = f"{side.valid} of {side.expected} with a value, {side.missing} missing"
    return f"{known}{states}, contaminated {side.contaminated}"


def _arm_row(arm: str, summary: ArmSummary, analysis: Analysis) -> list[Child]:
    side = summary.denominators
    fraction = analysis.arms.get("f2p_fraction", {}).get(arm)
    last = summary.passes[-1] if len(summary.passes) > 1 else None
    chances = [numbers.estimate(one, MAIN_OUTCOME) for one in (last.at_least_one, last.all_of_k)] if last else []
    return [
        cells_link(arm, arm=arm),
        str(side.expected),
        cells_link(str(side.valid), arm=arm, verdict=["resolved", "unresolved"]),
        cells_link(str(side.missing), arm=arm, verdict=["invalid", "not_run"]) if side.missing else "0",
        cells_link(str(side.contaminated), arm=arm, contaminated="yes") if side.contaminated else "0",
        cells_link(numbers.estimate(summary.means.clustered, MAIN_OUTCOME), arm=arm, verdict="resolved"),
        numbers.estimate(fraction.means.clustered, "f2p_fraction") if fraction else "–",
        *chances,
        *(_median(analysis, arm, outcome) for outcome in ("cost", "output_tokens", "turns", "run_s")),
    ]


def _median(analysis: Analysis, arm: str, outcome: str) -> str:
    found = analysis.arms[outcome][arm].quantiles[0.5]
    if not isinstance(found, Estimate):
        return numbers.UNKNOWN
    return numbers.seconds(found.value) if outcome == "run_s" else f"{found.value:.4g}"
