"""Comparisons as plain text for a terminal and as Markdown for a pull request: the same cells, notes and names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scoring.statistics.arm_tasks import ArmDenominators
from scoring.statistics.comparison import Comparison, PairedMeans, PairedTests
from scoring.statistics.printable import markdown, printable

_HEADER = ("comparison", "outcome", "pairs", "control", "treatment", "difference", "interval", "p", "p Holm", "bounds")
_NAMED = 20


def comparisons_as_text(comparisons: Sequence[Comparison]) -> str:
    """An aligned table; under it, numbered, what each comparison stands on. Ends with a newline."""
    cells = [_cells(number, comparison) for number, comparison in enumerate(comparisons, 1)]
    rows = [_HEADER, *(tuple(map(printable, row)) for row in cells)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    for number, comparison in enumerate(comparisons, 1):
        lines += ["", *(f"[{number}] {printable(line)}" for line in _remarks(comparison))]
    return "\n".join(lines) + "\n"


def comparisons_as_markdown(comparisons: Sequence[Comparison]) -> str:
    """A Markdown table and a list of what each comparison stands on. Ends with a newline."""
    lines = [_markdown_row(_HEADER), _markdown_row(["---"] * len(_HEADER))]
    lines += [_markdown_row(_cells(number, comparison)) for number, comparison in enumerate(comparisons, 1)]
    lines.append("")
    for number, comparison in enumerate(comparisons, 1):
        lines += [f"- [{number}] {markdown(line)}" for line in _remarks(comparison)]
    return "\n".join(lines) + "\n"


def _cells(number: int, comparison: Comparison) -> tuple[str, ...]:
    question, means = comparison.question, comparison.means
    pairs = str(int(comparison.pairs.paired.sum()))
    name = f"[{number}] " + " / ".join([*question.group.values(), f"{question.treatment} - {question.control}"])
    tail = (_p(comparison.p), _p(comparison.p_holm), _range(comparison.bounds))
    if not isinstance(means, PairedMeans):
        return (name, question.outcome, pairs, "-", "-", "not estimable", "-", *tail)
    interval = comparison.interval
    ends = _range((interval.low, interval.high) if interval else None)
    values = (f"{means.control:.4f}", f"{means.treatment:.4f}", f"{means.difference:+.4f}")
    return (name, question.outcome, pairs, *values, ends, *tail)


def _remarks(comparison: Comparison) -> Iterator[str]:
    pairs, tests, discordance = comparison.pairs, comparison.tests, comparison.discordance
    yield f"tasks {len(pairs.tasks)}, unpaired {len(pairs.unpaired)}, clusters {comparison.clusters}"
    yield f"control cells: {_denominators(pairs.control.denominators)}"
    yield f"treatment cells: {_denominators(pairs.treatment.denominators)}"
    if isinstance(tests, PairedTests):
        method = comparison.interval.method if comparison.interval else "none"
        yield f"p: {tests.primary.method}; interval: {method}; up {tests.up}, down {tests.down}, tie {tests.tie}"
    if discordance is not None:
        yield f"both {len(discordance.both)}, neither {len(discordance.neither)}"
        yield f"control only {_names(discordance.control_only)}"
        yield f"treatment only {_names(discordance.treatment_only)}"
    if pairs.unpaired:
        yield f"unpaired {_names(pairs.unpaired)}"
    yield from comparison.notes


def _denominators(side: ArmDenominators) -> str:
    states = "".join(f", {name} {count}" for name, count in side.states.items() if name != "valid")
    contaminated = f", contaminated {side.contaminated}" if side.contaminated else ""
    return f"{side.valid} of {side.expected} with a value, {side.missing} missing{states}{contaminated}"


def _names(names: tuple[str, ...]) -> str:
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)}: {', '.join(names[:_NAMED])}{more}" if names else "0"


def _p(p: float | None) -> str:
    return "-" if p is None else f"{p:.4g}"


def _range(ends: tuple[float, float] | None) -> str:
    return "-" if ends is None else f"[{ends[0]:+.4f}, {ends[1]:+.4f}]"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown(cell) for cell in cells) + " |"
