"""The report as Markdown, for a pull request: claim, caveats, comparisons, arms, reliability, provenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scoring.report import numbers
from scoring.report.analysis import MAIN_OUTCOME, Analysis
from scoring.report.claim import caveats, claim, floor_words
from scoring.report.contents import StudyContents
from scoring.report.drift_figure import drift_words
from scoring.report.matrix import entries
from scoring.statistics.printable import markdown


def report_markdown(contents: StudyContents, analysis: Analysis | None) -> str:
    """The text, ending with a newline."""
    return "\n".join(_lines(contents, analysis)) + "\n"


def _lines(contents: StudyContents, analysis: Analysis | None) -> Iterator[str]:
    yield f"## {markdown(contents.design.study)}"
    yield ""
    yield f"**{markdown(claim(contents, analysis))}**"
    yield ""
    for caveat in caveats(contents, analysis):
        yield f"- {'**Attention:**' if caveat.weight == 'serious' else 'Note:'} {markdown(caveat.words)}"
    yield ""
    if analysis is not None:
        yield "### Comparisons"
        yield ""
        yield analysis.comparisons.as_markdown()
        yield from (f"- {markdown(floor_words(analysis, outcome))}" for outcome in analysis.plan.outcomes)
        yield f"- {markdown(drift_words(analysis))}"
        yield ""
        yield "### Discordant tasks"
        yield ""
        yield from _discordant(contents, analysis)
        yield ""
    yield "### Arms"
    yield ""
    yield from _arms(contents, analysis)
    yield ""
    yield from _evidence(contents)


def _discordant(contents: StudyContents, analysis: Analysis) -> Iterator[str]:
    comparison = analysis.primary
    if comparison is None:
        yield "No comparison was planned."
        return
    found = entries(contents.compared)
    control, treatment = comparison.question.control, comparison.question.treatment
    rows = []
    for task in sorted({task for task, _ in found}):
        sides = [found.get((task, arm)) for arm in (control, treatment)]
        shown = [side.shown if side else numbers.UNKNOWN for side in sides]
        if sides[0] is None or sides[1] is None or sides[0].share != sides[1].share:
            rows.append((task, *shown))
    yield from _table(("task", control, treatment), rows) if rows else ["None: the arms agree on every task."]


def _arms(contents: StudyContents, analysis: Analysis | None) -> Iterator[str]:
    shown = {} if analysis is None else analysis.arms.get(MAIN_OUTCOME, {})
    rows = []
    for arm in (*contents.design.arms, *contents.design.controls):
        own, summary = contents.rows_of(arm), shown.get(arm)
        endings: dict[str, int] = {}
        for row in own:
            endings[str(row["outcome"])] = endings.get(str(row["outcome"]), 0) + 1
        share = numbers.estimate(summary.means.clustered, MAIN_OUTCOME) if summary else numbers.UNKNOWN
        dirty = sum(bool(row["contaminated"]) for row in own)
        ended = ", ".join(f"{name} {count}" for name, count in sorted(endings.items()))
        rows.append((arm, str(len(own)), share, ended, str(dirty)))
    yield from _table(("arm", "cells", "resolved", "ended", "contaminated"), rows)


def _evidence(contents: StudyContents) -> Iterator[str]:
    found = contents.reliability
    yield "### Evidence"
    yield ""
    yield f"- {found.accepted} of {found.planned} cells have a result; {sum(found.lost.values())} attempts were lost"
    controls = found.controls
    yield f"- controls: {controls['as_expected']} of {controls['done']} ended as they must"
    yield f"- spent: {markdown(found.cost or 'no known cost')}"
    yield from (f"- withheld: {markdown(f'{task}: {why}')}" for task, why in found.withheld.items())
    yield from (f"- {markdown(name)}: {markdown(value)}" for name, value in contents.provenance.facts)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(map(markdown, header)) + " |"
    yield "|" + " --- |" * len(header)
    for row in rows:
        yield "| " + " | ".join(map(markdown, row)) + " |"
