"""Cost and tokens against outcome: what each arm spent for what it resolved, and how spending is spread by verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cells.outcome import Verdict
from scoring.report import numbers
from scoring.report.analysis import MAIN_OUTCOME, Analysis
from scoring.report.contents import Row, StudyContents
from scoring.report.figures import ROW_IN, Drawing, colour, draw, legend_above, name_rows, of_arm, shortened
from scoring.report.markup import Html, cells_target
from scoring.statistics.estimate import Estimate, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Amount:
    """Something that a cell spends."""

    title: str
    of: Callable[[Row], float | None]


def _cost(row: Row) -> float | None:
    return None if row["cost"] is None else float(row["cost"])


def _tokens(row: Row) -> float | None:
    known = (row["input_tokens"], row["output_tokens"])
    return None if None in known else float(sum(known))


def amounts(contents: StudyContents) -> list[Amount]:
    """Cost (where one currency is known) and tokens, as far as any cell knows them."""
    currencies = sorted({str(row["currency"]) for row in contents.rows if row["currency"] is not None})
    offered = [Amount("input and output tokens", _tokens)]
    if len(currencies) == 1:
        offered.insert(0, Amount(f"cost, {currencies[0]}", _cost))
    arms = contents.design.arms
    return [one for one in offered if any(one.of(row) is not None for row in contents.rows if row["arm"] in arms)]


def frontier(contents: StudyContents, analysis: Analysis) -> Html | None:
    """Mean spending of a cell against the share resolved, one mark an arm; None when no spending is known."""
    known = amounts(contents)
    if not known:
        return None

    def into(drawing: Drawing, *panels: Axes) -> None:
        for axes, amount in zip(panels, known, strict=True):
            for place, arm in enumerate(contents.design.arms):
                _mark(drawing, axes, place, arm, amount.of, contents, analysis)
            axes.set_xlabel(f"{amount.title} (mean of a cell)")
            axes.set_ylabel("resolved, %")
            axes.set_ylim(-4, 104)
            legend_above(axes, 84 // len(known))
            axes.set_xlim(0, 1.15 * axes.dataLim.x1 if axes.has_data() else 1.0)
            axes.locator_params(axis="x", nbins=5)
            axes.grid(color=colour("line"), linewidth=0.5)

    label = "Share of tasks resolved against mean spending of a cell, by arm"
    return draw("frontier", label, 3.2 + 0.12 * len(contents.design.arms), into, panels=len(known))


def _mark(
    drawing: Drawing,
    axes: Axes,
    place: int,
    arm: str,
    of: Callable[[Row], float | None],
    contents: StudyContents,
    analysis: Analysis,
) -> None:
    spent = [value for row in contents.rows_of(arm) if (value := of(row)) is not None]
    summary = analysis.arms.get(MAIN_OUTCOME, {}).get(arm)
    found = summary.means.clustered if summary else None
    if not spent or not isinstance(found, Estimate):
        return
    shade, marker = of_arm(place)
    mean = float(np.mean(spent))
    if isinstance(found.interval, Interval):
        low, high = (100 * min(max(end, 0.0), 1.0) for end in (found.interval.low, found.interval.high))
        axes.plot([mean, mean], [low, high], color=shade, linewidth=1.6)
    (point,) = axes.plot(mean, 100 * found.value, marker=marker, markersize=10, color=shade, linestyle="none")
    drawing.tip(point, f"{arm}: {numbers.estimate(found, MAIN_OUTCOME)}, {mean:.4g} a cell", cells_target({"arm": arm}))
    point.set_label(shortened(arm, 24))


def spread(contents: StudyContents) -> Html | None:
    """Spending of resolved and of unresolved cells: middle half as a bar, 5 to 95 % as a line, median as a mark."""
    known = amounts(contents)
    groups = [
        (place, arm, verdict)
        for place, arm in enumerate(contents.design.arms)
        for verdict in (Verdict.RESOLVED.value, Verdict.UNRESOLVED.value)
    ]
    if not known:
        return None

    def into(drawing: Drawing, *panels: Axes) -> None:
        for number, (axes, amount) in enumerate(zip(panels, known, strict=True)):
            for row, (place, arm, verdict) in enumerate(groups):
                rows = [one for one in contents.rows_of(arm) if one["verdict"] == verdict]
                spent = [value for one in rows if (value := amount.of(one)) is not None]
                if spent:
                    _spread_row(drawing, axes, row, spent, of_arm(place)[0], (arm, verdict))
            name_rows(axes, [f"{shortened(arm, 24)}, {verdict}" for _, arm, verdict in groups] if not number else [])
            axes.set_ylim(len(groups) - 0.4, -0.6)
            axes.set_xlim(left=0)
            axes.locator_params(axis="x", nbins=5)
            axes.set_xlabel(amount.title)
            axes.grid(axis="x", color=colour("line"), linewidth=0.5)

    label = "Spending of resolved and unresolved cells, by arm"
    return draw("spread", label, 0.8 + ROW_IN * len(groups), into, panels=len(known))


def _spread_row(
    drawing: Drawing, axes: Axes, row: int, spent: Sequence[float], shade: str, named: tuple[str, str]
) -> None:
    p5, p25, p50, p75, p95 = (float(one) for one in np.quantile(spent, (0.05, 0.25, 0.5, 0.75, 0.95)))
    target = cells_target({"arm": named[0], "verdict": named[1]})
    middle = f"median {p50:.4g}, middle half {p25:.4g} to {p75:.4g}"
    words = f"{named[0]}, {named[1]}: {numbers.counted(len(spent), 'cell')}, {middle}"
    axes.plot([p5, p95], [row, row], color=shade, linewidth=1.2)
    (box,) = axes.plot([p25, p75], [row, row], color=shade, linewidth=8, solid_capstyle="butt", alpha=0.55)
    drawing.tip(box, words, target)
    (mark,) = axes.plot(p50, row, marker="|", markersize=16, markeredgewidth=2.4, color=shade)
    drawing.tip(mark, words, target)
