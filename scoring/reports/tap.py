"""TAP (versions 12 to 14): ids are the descriptions, `#N` for a test without one; indented subtests count through
their parent.

Rules:
1. There is exactly one plan, and exactly as many tests as it says; `Bail out!` is half a report.
2. `# SKIP` is `skipped`; `# TODO` that is not ok is `skipped`, that is ok is `passed`.
"""

from __future__ import annotations

import re

from scoring.reports.model import Report, ReportUnreadable, Result

_TEST = re.compile(r"(?P<not>not )?ok\b(?: +(?P<number>\d+))?(?: *- *| +|$)(?P<rest>.*)")
_PLAN = re.compile(r"1\.\.(?P<last>\d+)\s*(?:#.*)?")
_DIRECTIVE = re.compile(r"(?<!\\)#\s*(?P<word>skip|todo)\w*\b.*$", re.IGNORECASE)


def read_tap(content: bytes) -> Report:
    """The results of a stream."""
    report = Report()
    planned: int | None = None
    seen = 0
    for line in content.decode("utf-8", "backslashreplace").split("\n"):
        text = line.rstrip()
        if text.startswith("Bail out!"):
            raise ReportUnreadable(f"the run bailed out: {text[9:200].strip()}")
        if plan := _PLAN.fullmatch(text):
            if planned is not None:
                raise ReportUnreadable("more than one plan")
            planned = int(plan["last"])
        elif test := _TEST.match(text):
            seen += 1
            report.add(*_result(test, seen))
    if planned is None or planned != seen:
        raise ReportUnreadable(f"plan of {planned if planned is not None else 'no'} tests, {seen} came")
    return report


def _result(test: re.Match[str], position: int) -> tuple[str, Result]:
    rest = test["rest"]
    directive = _DIRECTIVE.search(rest)
    name = (rest[: directive.start()] if directive else rest).strip().replace("\\#", "#")
    result: Result = "failed" if test["not"] else "passed"
    if directive and (directive["word"].lower() == "skip" or test["not"]):
        result = "skipped"
    return name or f"#{test['number'] or position}", result
