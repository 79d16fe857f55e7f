"""Stacked bars an arm: how its cells ended, and where its time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cells.outcome import EMPTY_PATCH, Ended, Verdict
from scoring.report import numbers
from scoring.report.contents import StudyContents
from scoring.report.figures import ROW_IN, Drawing, colour, draw, name_rows
from scoring.report.markup import Html, cells_target

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

NO_RESULT = "no result"
_ENDINGS = {
    Ended.COMPLETED.value: "c3",
    EMPTY_PATCH: "c8",
    Ended.HARNESS_ERROR.value: "c4",
    Ended.WALL_LIMIT.value: "c2",
    Ended.TURN_LIMIT.value: "c7",
    Ended.REQUEST_LIMIT.value: "c6",
    Ended.TOKEN_LIMIT.value: "c5",
    Ended.COST_LIMIT.value: "c9",
    Ended.CONTEXT_LIMIT.value: "c10",
    Ended.STOPPED_BY_CONTROLLER.value: "c11",
    Ended.SANDBOX_BROKEN.value: "c12",
    NO_RESULT: "line",
}
_VERDICTS = {
    Verdict.RESOLVED.value: "c1",
    Verdict.UNRESOLVED.value: "c2",
    Verdict.INVALID.value: "c4",
    NO_RESULT: "line",
}
_PHASES = {
    "prepare": "c8",
    "launch": "c6",
    "run": "c1",
    "seal": "c7",
    "collect": "c11",
    "gate": "c10",
    "verify": "c2",
    "score": "c5",
    "publish": "c12",
}
_LABELLED = 0.055
"""Share of the width from which a part has room for its own label."""


@dataclass(frozen=True)
class _Part:
    name: str
    length: float
    shown: str
    tip: str
    target: str | None
    shade: str


def outcome_bars(contents: StudyContents) -> Html:
    """Cells of each arm by outcome, as shares of the planned cells; those without a result are a part of the bar."""
    names = [*contents.design.arms, *contents.design.controls]
    return _bars(
        "outcomes",
        "How the cells of each arm ended, in per cent of the cells planned",
        {name: _counted(contents, name, "outcome", _ENDINGS) for name in names},
        "% of planned cells",
    )


def verdict_bars(contents: StudyContents) -> Html:
    """The same by verdict: what is believed of the task after the run."""
    names = [*contents.design.arms, *contents.design.controls]
    return _bars(
        "verdicts",
        "Verdicts of the cells of each arm, in per cent of the cells planned",
        {name: _counted(contents, name, "verdict", _VERDICTS) for name in names},
        "% of planned cells",
    )


def phase_bars(contents: StudyContents) -> Html:
    """Mean seconds of an accepted attempt by phase."""
    names = [name for name in (*contents.design.arms, *contents.design.controls) if contents.phases.get(name)]
    return _bars(
        "phases",
        "Mean seconds of a cell in each phase, by arm",
        {name: _phases(name, contents.phases[name]) for name in names},
        "seconds a cell (mean of accepted attempts)",
    )


def _counted(contents: StudyContents, arm: str, column: str, shades: Mapping[str, str]) -> list[_Part]:
    """The parts of an arm's planned cells by the words of a column; cells without a result are the last part."""
    counts = Counter(str(row[column]) for row in contents.rows_of(arm))
    missing = sum(row["arm"] == arm for row in contents.open_cells)
    total = counts.total() + missing
    if missing:
        counts[NO_RESULT] = missing
    order = [*shades, *sorted(counts.keys() - shades.keys())]
    return [
        _Part(
            name=name,
            length=100 * counts[name] / total,
            shown=str(counts[name]),
            tip=f"{arm}: {name}, {numbers.counted(counts[name], 'cell')} of {total}",
            target=None if name == NO_RESULT else cells_target({"arm": arm, column: name}),
            shade=shades.get(name, "muted"),
        )
        for name in order
        if counts[name]
    ]


def _phases(arm: str, phases: Mapping[str, float]) -> list[_Part]:
    return [
        _Part(
            name=phase,
            length=seconds,
            shown=f"{seconds:.1f}",
            tip=f"{arm}: {phase}, {numbers.seconds(seconds)} a cell",
            target=cells_target({"arm": arm}),
            shade=_PHASES.get(phase, "muted"),
        )
        for phase, seconds in phases.items()
        if seconds
    ]


def _bars(name: str, label: str, bars: Mapping[str, list[_Part]], unit: str) -> Html:
    def into(drawing: Drawing, axes: Axes) -> None:
        longest = max([sum(part.length for part in parts) for parts in bars.values()] or [1.0])
        legend: dict[str, Artist] = {}
        for place, parts in enumerate(bars.values()):
            _bar(drawing, axes, place, parts, longest, legend)
        name_rows(axes, list(bars))
        axes.set_xlim(0, longest * 1.001)
        axes.set_xlabel(unit)
        if legend:
            axes.legend(
                list(legend.values()), list(legend), ncols=6, loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False
            )

    rows_of_legend = 1 + (len({part.name for parts in bars.values() for part in parts}) - 1) // 6
    return draw(name, label, 0.75 + 0.25 * rows_of_legend + ROW_IN * max(len(bars), 1), into)


def _bar(
    drawing: Drawing, axes: Axes, place: int, parts: list[_Part], longest: float, legend: dict[str, Artist]
) -> None:
    left = 0.0
    for part in parts:
        (patch,) = axes.barh(
            place,
            part.length,
            left=left,
            height=0.66,
            color=colour(part.shade),
            edgecolor=colour("paper"),
            linewidth=1.2,
        )
        drawing.tip(patch, part.tip, part.target)
        legend.setdefault(part.name, patch)
        if part.length / longest >= _LABELLED:
            axes.text(
                left + part.length / 2, place, part.shown, ha="center", va="center", fontsize=9, color=colour("paper")
            )
        left += part.length
