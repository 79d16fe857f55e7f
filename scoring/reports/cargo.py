"""`cargo test -- -Z unstable-options --format json` (libtest events): ids are the test's path, as
`module::tests::name`.

Rules:
1. `ok`, `failed`, `ignored` (and `timeout`, a failure) end a test.
2. Every suite that started must end, with as many tests as it announced; lines that are no event (compiler messages)
   are
   passed over.
"""

from __future__ import annotations

from typing import Any

from scoring.reports.json_lines import lines
from scoring.reports.model import Report, ReportUnreadable, Result

_EVENTS: dict[str, Result] = {"ok": "passed", "failed": "failed", "ignored": "skipped", "timeout": "failed"}


def read_cargo(content: bytes) -> Report:
    """The results of one or more suites."""
    report = Report()
    announced: int | None = None
    seen, suites = 0, 0
    for row in lines(content, strict=False):
        kind, event = row.get("type"), row.get("event")
        if kind == "suite" and event == "started":
            if announced is not None:
                raise ReportUnreadable("a suite began before the one before it ended")
            announced, seen = _count(row), 0
        elif kind == "suite" and event in ("ok", "failed"):
            if announced is None or seen != announced:
                raise ReportUnreadable(f"a suite of {announced} tests ended after {seen}")
            announced, suites = None, suites + 1
        elif kind == "test" and event in _EVENTS:
            seen += event != "timeout"
            report.add(_name(row), _EVENTS[event])
    if announced is not None or not suites:
        raise ReportUnreadable("no suite that ended" if announced is None else "a suite that never ended")
    return report


def _count(row: dict[str, Any]) -> int:
    count = row.get("test_count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ReportUnreadable("a suite that does not say how many tests it has")
    return count


def _name(row: dict[str, Any]) -> str:
    name = row.get("name")
    if not isinstance(name, str) or not name:
        raise ReportUnreadable("a test without a name")
    return name
