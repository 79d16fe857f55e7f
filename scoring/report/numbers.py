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
    if not isinstance(interval, Interval):
        return UNKNOWN
    scale = 100 if is_share(outcome) else 1
    form = "+.1f" if is_share(outcome) else "+.4g"
    return f"{interval.low * scale:{form}} to {interval.high * scale:{form}}"


def estimate(found: Estimate | NotEstimable, outcome: str) -> str:
    """An estimate with its interval: 33.3 % (12.0 to 54.6)."""
    if isinstance(found, NotEstimable):
        return UNKNOWN
    shown = value(found.value, outcome)
    if not isinstance(found.interval, Interval):
        return shown
    scale = 100 if is_share(outcome) else 1
    form = ".1f" if is_share(outcome) else ".4g"
    return f"{shown} ({found.interval.low * scale:{form}} to {found.interval.high * scale:{form}})"


def p_value(p: float | None) -> str:
    """A p value: three digits, or that it is smaller than 0.0001."""
    if p is None:
        return UNKNOWN
    return "< 0.0001" if p < 0.0001 else f"{p:.3g}"


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
