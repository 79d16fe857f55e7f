"""CTest's XML: the JUnit form (`--output-junit`), or the dashboard form (`Site/Testing/Test`); ids are `name::name`
or the name.

Rule: in the dashboard form a test's result is its attribute `Status`; what is neither passed, failed nor notrun is
unreadable.
"""

from __future__ import annotations

from scoring.reports.junit import read_junit
from scoring.reports.model import Report, ReportUnreadable, Result
from scoring.reports.xml_events import parse_xml

_STATUS: dict[str, Result] = {"passed": "passed", "failed": "failed", "notrun": "skipped"}


def read_ctest(content: bytes) -> Report:
    """The results of either form; JUnit ids whose class is the test itself are shortened to its name."""
    if _root(content) == "Site":
        return _read_dashboard(content)
    found = read_junit(content)
    report = Report()
    for test, result in found.tests.items():
        classname, _, name = test.partition("::")
        report.add(name if classname in (name, "") else test, result)
    report.repeated = {test.partition("::")[2] for test in found.repeated}
    return report


def _root(content: bytes) -> str | None:
    roots: list[str] = []
    parse_xml(content, lambda name, attributes: roots.append(name) if not roots else None, lambda name: None)
    return roots[0] if roots else None


def _read_dashboard(content: bytes) -> Report:
    report = Report()
    state: dict[str, str] = {}
    path: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        path.append(name)
        if path == ["Site", "Testing", "Test"]:
            state.update(status=attributes.get("Status", ""), name="")

    def text(content: str) -> None:
        if path == ["Site", "Testing", "Test", "Name"]:
            state["name"] += content

    def end(name: str) -> None:
        if path == ["Site", "Testing", "Test"]:
            if not state["name"] or state["status"] not in _STATUS:
                raise ReportUnreadable(f"test {state['name'][:80]!r} with status {state['status'][:40]!r}")
            report.add(state["name"], _STATUS[state["status"]])
        path.pop()

    parse_xml(content, start, end, text)
    return report
