"""The claim of a study in one sentence with its uncertainty, and what a reader must know before believing it.

Rules:
1. The claim is about the first planned comparison; what was asked later is never the claim.
2. "More" and "less" are said only when the adjusted p value is below the level and the interval leaves out 0.
3. Everything that weakens the claim stands right under it: hidden verdicts, a plan changed after a verdict, unblinding,
   tasks withheld or without control, cells without a result, contamination, mixed runtimes, evidence that was dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scoring.report import numbers
from scoring.report.analysis import Analysis
from scoring.report.contents import Revision, StudyContents
from scoring.report.numbers import counted
from scoring.statistics.comparison import Comparison, PairedMeans
from scoring.statistics.estimate import NotEstimable
from scoring.statistics.noise_floor import NoiseFloor

Weight = Literal["serious", "notice"]
_NAMED = 12


@dataclass(frozen=True)
class Caveat:
    """One thing to know; `serious` ones can change what is believed."""

    weight: Weight
    words: str
    target: str | None = None
    """Where in the page more is said."""


def claim(contents: StudyContents, analysis: Analysis | None) -> str:
    """The sentence at the top."""
    if analysis is None:
        cells = f"{contents.reliability.accepted} of {counted(contents.reliability.planned, 'cell')}"
        return f"No claim yet: {cells} have a result, and verdicts are hidden while cells are open."
    comparison = analysis.primary
    if comparison is None:
        return "No claim: the plan of this study fixes no comparison."
    if isinstance(comparison.means, NotEstimable):
        return f"No claim: {_names(comparison)} cannot be estimated ({comparison.means.reason})."
    return f"{_verdict(comparison, analysis.plan.alpha)}: {_figures(comparison, comparison.means, analysis)}."


def floor_words(analysis: Analysis, outcome: str) -> str:
    """What the noise floor of an outcome says beside its comparisons."""
    floor = analysis.floors.get(outcome)
    if not isinstance(floor, NoiseFloor):
        return f"Noise floor of {numbers.named(outcome)}: not estimable ({floor.reason if floor else 'no comparison'})."
    reach = numbers.span(floor.low, floor.high, outcome) + (" points" if numbers.is_share(outcome) else "")
    return (
        f"Noise floor of {numbers.named(outcome)}: without any effect, 95 % of differences lie from {reach} "
        f"({floor.source})."
    )


def caveats(contents: StudyContents, analysis: Analysis | None) -> list[Caveat]:
    """Everything to know before believing the claim, serious things first."""
    found = [*_on_plan(contents), *_on_evidence(contents), *_on_result(contents, analysis)]
    return sorted(found, key=lambda one: one.weight != "serious")


def _verdict(comparison: Comparison, alpha: float) -> str:
    question, means = comparison.question, comparison.means
    assert isinstance(means, PairedMeans)
    p = comparison.p_holm if comparison.p_holm is not None else comparison.p
    interval = comparison.interval
    treatment, control, outcome = question.treatment, question.control, numbers.named(question.outcome)
    if p is None or p >= alpha or means.difference == 0:
        return f"No difference is shown between {treatment} and {control} in {outcome}"
    more = "higher" if means.difference > 0 else "lower"
    if interval is not None and not interval.low <= 0 <= interval.high:
        return f"{treatment} is {more} than {control} in {outcome}"
    return (
        f"On these tasks {treatment} is {more} than {control} in {outcome}; "
        "for other repositories like these no difference is shown"
    )


def _figures(comparison: Comparison, means: PairedMeans, analysis: Analysis) -> str:
    outcome, interval = comparison.question.outcome, comparison.interval
    level = f"{100 * (1 - analysis.plan.alpha):g} %"
    shown = f"{level} interval {numbers.ends(interval, outcome)}" if interval else "no interval can be estimated"
    adjusted = f", {numbers.p_value(comparison.p_holm)} after Holm" if comparison.p_holm is not None else ""
    pairs = int(comparison.pairs.paired.sum())
    clusters = counted(comparison.clusters, "repository", "repositories") if comparison.clusters != pairs else ""
    tested = f"p = {numbers.p_value(comparison.p)}{adjusted}"
    return (
        f"{numbers.value(means.treatment, outcome)} against {numbers.value(means.control, outcome)}, "
        f"a difference of {numbers.difference(means.difference, outcome)} ({shown}; {tested}), "
        f"over {counted(pairs, 'paired task')}{' in ' + clusters if clusters else ''}"
    )


def _names(comparison: Comparison) -> str:
    question = comparison.question
    return f"{question.treatment} against {question.control} in {numbers.named(question.outcome)}"


def _on_plan(contents: StudyContents) -> Iterator[Caveat]:
    if contents.blind:
        yield Caveat("serious", "Verdicts are hidden: cells are open and nobody unblinded the study.")
    for revision in contents.provenance.revisions:
        if revision.after_verdict:
            yield Caveat("serious", _revision_words(revision), "#provenance")
    for look in contents.reliability.unblinded:
        yield Caveat("serious", f"Verdicts were looked at before the study was closed: {look}.", "#reliability")


def _revision_words(revision: Revision) -> str:
    known = f"{counted(revision.accepted_before, 'cell')} already had a verdict"
    seen = ", and verdicts had been looked at" if revision.verdicts_seen else ""
    analysis = [line for line in revision.design if line.startswith(("comparisons", "analysis"))]
    what = "The planned analysis was changed" if analysis else "The plan was changed"
    lines = analysis or list(revision.design)
    shown = f" Changed: {'; '.join(lines[:4])}." if lines else ""
    return f"{what} after the first verdict (revision {revision.number}): {known}{seen}.{shown}"


def _on_evidence(contents: StudyContents) -> Iterator[Caveat]:
    reliability, design = contents.reliability, contents.design
    if reliability.dropped:
        dropped = counted(len(reliability.dropped), "result")
        yield Caveat("serious", f"{dropped} left out: withdrawn, or made from withdrawn evidence.", "#reliability")
    if reliability.withheld:
        names = _listed(list(reliability.withheld))
        yield Caveat("serious", f"Withheld, since a control failed: {names}.", "#reliability")
    if design.without_control:
        yield Caveat("serious", f"Admitted without a passing control: {_listed(list(design.without_control))}.")
    if len(contents.provenance.runtimes) > 1:
        kinds = len(contents.provenance.runtimes)
        yield Caveat("serious", f"Mixed runtimes: cells ran on {kinds} different machines or engines.", "#provenance")


def _on_result(contents: StudyContents, analysis: Analysis | None) -> Iterator[Caveat]:
    open_cells = [row for row in contents.open_cells if row["arm"] in contents.design.arms]
    if open_cells:
        yield Caveat("notice", f"{counted(len(open_cells), 'cell')} of the arms without a result.", "#reliability")
    contaminated = sum(bool(row["contaminated"]) for row in contents.compared)
    if contaminated:
        told = counted(contaminated, "contaminated cell")
        yield Caveat("notice", f"{told} included; the estimate without them stands beside.", "#comparisons")
    yield from _on_noise(analysis)
    if analysis is not None and analysis.primary is not None:
        notes = [note for note in analysis.primary.notes if note]
        if notes:
            yield Caveat("notice", f"{'; '.join(notes)}.", "#comparison-1")


def _on_noise(analysis: Analysis | None) -> Iterator[Caveat]:
    """How often noise alone gives a difference as large as the claimed one."""
    comparison = analysis.primary if analysis else None
    if analysis is None or comparison is None or not isinstance(comparison.means, PairedMeans):
        return
    floor = analysis.floors.get(comparison.question.outcome)
    if isinstance(floor, NoiseFloor):
        share = floor.share_as_large(comparison.means.difference)
        often = f"{100 * share:.2g} % of {floor.draws} draws ({floor.source})"
        yield Caveat("notice", f"the same arm twice gives a difference as large in {often}.", "#comparisons")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
