"""Plain text for people: tables and numbers as the commands print them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns padded to their widest cell; numbers to the right; None is shown as `-`."""
    shown = [[_cell(value) for value in row] for row in rows]
    widths = [max([len(title), *(len(row[place]) for row in shown)]) for place, title in enumerate(header)]
    right = [bool(shown) and all(_numeric(row[place]) for row in shown) for place in range(len(header))]
    out = io.StringIO()
    for row in [list(header), *shown]:
        padded = [
            text.rjust(width) if r else text.ljust(width) for text, width, r in zip(row, widths, right, strict=True)
        ]
        out.write("  ".join(padded).rstrip() + "\n")
    return out.getvalue().rstrip("\n")


def duration(seconds: float | None) -> str:
    """`1 h 02 min`, `3 min 05 s`, `12.3 s`; `-` when unknown."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"


def money(amount: Decimal | str | None, currency: str | None) -> str:
    """`0.1234 USD`; `unknown` when there is no amount."""
    if amount is None:
        return "unknown"
    value = Decimal(str(amount))
    places = 2 if value >= 1 else 4
    return f"{value:.{places}f} {currency or ''}".rstrip()


def size(count: int | None) -> str:
    """Bytes in a readable unit."""
    if count is None:
        return "-"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)


def _numeric(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("-", "", 1).replace("%", "").strip().isdecimal()
