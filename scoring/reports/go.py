"""`go test -json`: ids are `package::Test/Sub`.

Rules:
1. `pass`, `fail` and `skip` with a test name end that test; without one they end its package.
2. Every package that started must end, and every test that ran must end: otherwise the report is half.
3. A package that failed without a failed test (its build, a panic) leaves its tests missing; it is no test itself.
"""

from __future__ import annotations

from scoring.reports.json_lines import lines
from scoring.reports.model import Report, ReportUnreadable, Result

_ENDS: dict[str, Result] = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def read_go(content: bytes) -> Report:
    """The results of a stream of test events."""
    report = Report()
    open_packages: set[str] = set()
    running: set[str] = set()
    packages = 0
    for row in lines(content, strict=True):
        action, package, test = row.get("Action"), row.get("Package"), row.get("Test")
        if not isinstance(action, str):
            raise ReportUnreadable("a test event without an action")
        if not isinstance(package, str):
            continue
        if not isinstance(test, str):
            packages += action in _ENDS
            open_packages.discard(package) if action in _ENDS else open_packages.add(package)
            continue
        name = f"{package}::{test}"
        open_packages.add(package)
        if action == "run":
            running.add(name)
        elif action in _ENDS:
            running.discard(name)
            report.add(name, _ENDS[action])
    if open_packages or not packages:
        raise ReportUnreadable(
            f"packages that never ended: {', '.join(sorted(open_packages)[:3]) or 'no package at all'}"
        )
    for name in running:
        report.add(name, "failed")
    return report
