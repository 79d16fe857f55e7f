"""JSON documents and JSON lines of reports, read strictly: whole, UTF-8, objects, no duplicate key, no NaN."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn

from scoring.reports.model import ReportUnreadable


def one_document(content: bytes) -> Any:
    """The only JSON value of a file."""
    try:
        return json.loads(
            content.decode("utf-8"), object_pairs_hook=_distinct, parse_constant=_no_constant, parse_float=Decimal
        )
    except (ValueError, RecursionError) as error:
        raise ReportUnreadable(f"not a whole JSON document: {error}") from error


def lines(content: bytes, *, strict: bool) -> Iterator[dict[str, Any]]:
    """The objects of JSON lines. Where output of others may stand between them (`strict` False), other lines are
    passed over.

    The last line must end: half a line is half a report.
    """
    if content and not content.endswith(b"\n"):
        raise ReportUnreadable("the last line has no end")
    for number, line in enumerate(content.splitlines(), 1):
        if not strict and not line.startswith(b"{"):
            continue
        try:
            row = one_document(line)
        except ReportUnreadable as error:
            if not strict:
                continue
            raise ReportUnreadable(f"line {number}: {error}") from error
        if isinstance(row, dict):
            yield row
        elif strict:
            raise ReportUnreadable(f"line {number}: expected an object")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ReportUnreadable("a key that stands twice in one object")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ReportUnreadable(f"{word} is no JSON number")
