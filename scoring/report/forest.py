"""The forest plot: every comparison with its interval, over the band of differences that mean nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scoring.report import numbers
from scoring.report.analysis import Analysis
from scoring.report.figures import ROW_IN, Drawing, colour, draw, name_rows
from scoring.report.markup import Html, join
from scoring.statistics.comparison import Comparison, PairedMeans
from scoring.statistics.estimate import NotEstimable
from scoring.statistics.noise_floor import NoiseFloor

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def forest(analysis: Analysis) -> Html | None:
    """One plot for shares, one for each other outcome (units differ); None when nothing can be drawn."""
    numbered = enumerate(analysis.comparisons.comparisons, 1)
    drawable = [(number, one) for number, one in numbered if isinstance(one.means, PairedMeans)]
    scales = dict.fromkeys(_scale(one) for _, one in drawable)
    plots = [_plot(analysis, {n: one for n, one in drawable if _scale(one) == scale}, scale) for scale in scales]
    return join(*plots) if plots else None


def _scale(comparison: Comparison) -> str:
    outcome = comparison.question.outcome
    return "" if numbers.is_share(outcome) else outcome


def _plot(analysis: Analysis, comparisons: dict[int, Comparison], scale: str) -> Html:
    def into(drawing: Drawing, axes: Axes) -> None:
        for place, (number, comparison) in enumerate(comparisons.items()):
            _row(drawing, axes, place, comparison, analysis.floors.get(comparison.question.outcome))
            _point(drawing, axes, place, comparison, f"#comparison-{number}")
        axes.axvline(0, color=colour("ink"), linewidth=0.9, zorder=1)
        name_rows(axes, [_name(one) for one in comparisons.values()])
        _frame(axes, scale)

    label = f"Differences of {len(comparisons)} comparisons with their intervals, over the noise floor"
    return draw(f"forest{scale}", label, 0.9 + ROW_IN * 1.25 * len(comparisons), into)


def _row(
    drawing: Drawing, axes: Axes, place: int, comparison: Comparison, floor: NoiseFloor | NotEstimable | None
) -> None:
    """The noise floor and over it the interval."""
    outcome, interval = comparison.question.outcome, comparison.interval
    unit = 100 if numbers.is_share(outcome) else 1
    if isinstance(floor, NoiseFloor):
        width = (floor.high - floor.low) * unit
        (band,) = axes.barh(place, width, left=floor.low * unit, height=0.72, color=colour("band"), zorder=0)
        drawing.tip(band, f"noise floor of {outcome}: 95 % of differences without an effect ({floor.source})")
    if interval is not None:
        ends = [interval.low * unit, interval.high * unit]
        (line,) = axes.plot(ends, [place, place], color=_shade(comparison), linewidth=2.2)
        drawing.tip(line, f"{numbers.ends(interval, outcome)}: {interval.method}")


def _point(drawing: Drawing, axes: Axes, place: int, comparison: Comparison, target: str) -> None:
    """The difference, its number above it."""
    means, outcome = comparison.means, comparison.question.outcome
    assert isinstance(means, PairedMeans)
    at = means.difference * (100 if numbers.is_share(outcome) else 1)
    marker = "D" if comparison.question.planned else "o"
    (point,) = axes.plot(at, place, marker=marker, markersize=8, color=_shade(comparison))
    shown = numbers.difference(means.difference, outcome)
    drawing.tip(point, f"{_name(comparison)}: {shown}", target)
    words = shown.removesuffix(" points")
    axes.annotate(words, (at, place), (0, 9), textcoords="offset points", ha="center", fontsize=9)


def _shade(comparison: Comparison) -> str:
    return colour("c1" if comparison.question.planned else "c8")


def _name(comparison: Comparison) -> str:
    question = comparison.question
    return f"{question.treatment} − {question.control}: {question.outcome}"


def _frame(axes: Axes, scale: str) -> None:
    axes.set_xlabel(f"difference of {scale}" if scale else "difference in percentage points (treatment − control)")
    axes.margins(x=0.08)
    axes.grid(axis="x", color=colour("line"), linewidth=0.5)
    axes.set_axisbelow(True)
