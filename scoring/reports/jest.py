"""Jest's `--json --outputFile`: ids are `file::full name`, files relative to the work directory.

Rules:
1. A file that failed to run holds no results: its tests are missing.
2. The totals that Jest gives must be those of the results that it lists.
"""

from __future__ import annotations

from typing import Any

from scoring.reports.json_lines import one_document
from scoring.reports.model import Report, ReportUnreadable, Result

_STATUS: dict[str, Result] = {
    "passed": "passed",
    "failed": "failed",
    "pending": "skipped",
    "skipped": "skipped",
    "todo": "skipped",
    "disabled": "skipped",
}


def read_jest(content: bytes, workdir: str) -> Report:
    """The results of a run."""
    document = one_document(content)
    files = document.get("testResults") if isinstance(document, dict) else None
    if not isinstance(files, list) or not isinstance(document.get("numTotalTests"), int):
        raise ReportUnreadable("expected Jest's object with `testResults` and `numTotalTests`")
    report = Report()
    listed = 0
    for file in files:
        for result in _results(file):
            listed += 1
            report.add(f"{_relative(file.get('name'), workdir)}::{_full_name(result)}", _status(result))
    if listed != document["numTotalTests"]:
        raise ReportUnreadable(f"{document['numTotalTests']} tests in all, {listed} listed")
    return report


def _results(file: Any) -> list[Any]:
    results = file.get("assertionResults") if isinstance(file, dict) else None
    if not isinstance(results, list):
        raise ReportUnreadable("a file without `assertionResults`")
    return results


def _full_name(result: Any) -> str:
    if isinstance(result, dict):
        if isinstance(name := result.get("fullName"), str):
            return name
        ancestors, title = result.get("ancestorTitles"), result.get("title")
        if isinstance(title, str) and isinstance(ancestors, list):
            return " ".join([*map(str, ancestors), title])
    raise ReportUnreadable("a test without a name")


def _status(result: dict[str, Any]) -> Result:
    status = result.get("status")
    if status not in _STATUS:
        raise ReportUnreadable(f"unknown status {str(status)[:40]!r}")
    return _STATUS[status]


def _relative(name: Any, workdir: str) -> str:
    if not isinstance(name, str):
        raise ReportUnreadable("a file without a name")
    return name.removeprefix(workdir.rstrip("/") + "/")
