"""Drift: outcome against the place in the run, in bins of neighbouring cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scoring.report import numbers
from scoring.report.analysis import MAIN_OUTCOME, Analysis
from scoring.report.contents import Row, StudyContents
from scoring.report.figures import Drawing, colour, draw, legend_above, of_arm, shortened
from scoring.report.markup import Html, cells_target
from scoring.statistics.estimate import NotEstimable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BINS = 12
_LEAST_CELLS = 4
"""Cells of an arm in a bin, about; fewer would draw noise."""


def drift_figure(contents: StudyContents) -> Html | None:
    """Share resolved by place in the run, one line an arm; None without enough cells for two bins."""
    graded = [row for row in contents.compared if row[MAIN_OUTCOME] is not None and row["order"] is not None]
    arms = contents.design.arms
    bins = min(_MOST_BINS, len(graded) // (_LEAST_CELLS * max(len(arms), 1)))
    if bins < 2:
        return None
    places = np.asarray([row["order"] for row in graded], dtype=np.float64)
    edges = np.quantile(places, np.linspace(0, 1, bins + 1))
    inside = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, bins - 1)

    def into(drawing: Drawing, axes: Axes) -> None:
        for place, arm in enumerate(arms):
            own = [(graded[row], inside[row]) for row in range(len(graded)) if graded[row]["arm"] == arm]
            _line(drawing, axes, of_arm(place), arm, [[row for row, b in own if b == one] for one in range(bins)])
        axes.set_ylim(-4, 104)
        axes.set_xlabel("place in the run (the frozen order of cells)")
        axes.set_ylabel("resolved, %")
        axes.grid(color=colour("line"), linewidth=0.5)
        legend_above(axes, 90)

    return draw("drift", "Share resolved against the place in the run, by arm", 3.2, into)


def drift_words(analysis: Analysis) -> str:
    """What the drift test found, in a sentence."""
    found = analysis.drift
    if isinstance(found, NotEstimable):
        return f"Drift is not estimable: {found.reason}."
    change = numbers.difference(found.slope, MAIN_OUTCOME)
    return (
        f"From the first to the last place in the run the share resolved changed by {change} "
        f"(slope over {found.blocks} blocks of task and sample; permutation p = {numbers.p_value(found.p.p)}). "
        "Arms of a pair run next to each other, so drift hits them alike."
    )


def _line(drawing: Drawing, axes: Axes, look: tuple[str, str], arm: str, groups: list[list[Row]]) -> None:
    """One arm: a point for each bin in which it has cells."""
    shade, marker = look
    points = [
        (
            float(np.mean([row["order"] for row in rows])),
            100 * sum(row[MAIN_OUTCOME] for row in rows) / len(rows),
            len(rows),
        )
        for rows in groups
        if rows
    ]
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    axes.plot(xs, ys, color=shade, linewidth=1.4, marker=marker, label=shortened(arm, 24))
    for x, y, count in points:
        (mark,) = axes.plot(x, y, marker=marker, color=shade, linestyle="none")
        words = f"{arm}: {y:.0f} % of {numbers.counted(count, 'cell')} near place {x:.0f}"
        drawing.tip(mark, words, cells_target({"arm": arm}))
