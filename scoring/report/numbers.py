"""Numbers as a report prints them: shares as per cent, their differences as points, money with its currency; `-` for
what is unknown."""

from __future__ import annotations

from scoring.statistics.estimate import Estimate, Interval, NotEstimable
from scoring.statistics.outcomes import OutcomeKind, kind_of

UNKNOWN = "–"
_SHARES = (OutcomeKind.BINARY, OutcomeKind.FRACTION)


def is_share(outcome: str) -> bool:
    """Whether the values of an outcome are shares from 0 to 1."""
    return kind_of(outcome) in _SHARES


def named(outcome: str) -> str:
    """An outcome in words: what the sentence of a claim says."""
    return {"resolved": "tasks resolved", "f2p_fraction": "F2P fraction", "p2p_fraction": "P2P fraction"}.get(
        outcome, outcome.replace("_", " ")
    )


def value(number: float | None, outcome: str) -> str:
    """A mean of an outcome: 33.3 %, or four digits."""
    if number is None:
        return UNKNOWN
    return f"{100 * number:.1f} %" if is_share(outcome) else f"{number:.4g}"


def difference(number: float | None, outcome: str) -> str:
    """A difference with its sign: +5.2 points, or four digits."""
    if number is None:
        return UNKNOWN
    return f"{100 * number:+.1f} points" if is_share(outcome) else f"{number:+.4g}"


def ends(interval: Interval | NotEstimable | None, outcome: str) -> str:
    """The ends of an interval of a difference: +1.2 to +9.3."""
    return span(interval.low, interval.high, outcome) if isinstance(interval, Interval) else UNKNOWN


def span(low: float, high: float, outcome: str) -> str:
    """Two differences, from one to the other, in the unit of `difference`."""
    scale, form = (100, "+.1f") if is_share(outcome) else (1, "+.4g")
    return f"{low * scale:{form}} to {high * scale:{form}}"


def estimate(found: Estimate | NotEstimable, outcome: str) -> str:
    """An estimate with its interval: 33.3 % (12.0 to 54.6); the ends of a share stay within 0 and 100."""
    if isinstance(found, NotEstimable):
        return UNKNOWN
    shown = value(found.value, outcome)
    if not isinstance(found.interval, Interval):
        return shown
    low, high = found.interval.low, found.interval.high
    if not is_share(outcome):
        return f"{shown} ({low:.4g} to {high:.4g})"
    return f"{shown} ({100 * max(low, 0.0):.1f} to {100 * min(high, 1.0):.1f})"


def p_value(p: float | None) -> str:
    """A p value: four digits, or that it is smaller than 0.0001."""
    if p is None:
        return UNKNOWN
    return "< 0.0001" if p < 0.0001 else f"{p:.4g}"


def seconds(number: float | None) -> str:
    """12.3 s, 3 min 05 s."""
    if number is None:
        return UNKNOWN
    if number < 60:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"


def counted(number: int, one: str, many: str | None = None) -> str:
    """1 cell, 2 cells."""
    return f"{number} {one if number == 1 else many or one + 's'}"
