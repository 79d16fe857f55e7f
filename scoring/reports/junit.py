"""JUnit XML as pytest and CTest write it: ids are `classname::name`.

Rules:
1. A document type, an entity or a processing instruction is refused: no report needs one.
2. `failure` or `error` inside a test case is `failed`, `skipped` (pytest's xfail too) is `skipped`, neither is
   `passed`.
3. The document must end; half of one is ReportUnreadable.
"""

from __future__ import annotations

from scoring.reports.model import Report, ReportUnreadable, Result
from scoring.reports.xml_events import parse_xml

_ROOTS = {"testsuites", "testsuite"}
_CHILDREN: dict[str, Result] = {"failure": "failed", "error": "failed", "skipped": "skipped"}
_MAX_DEPTH = 32


def read_junit(content: bytes) -> Report:
    """The results of a JUnit document."""
    reader = _Reader()
    parse_xml(content, reader.start, reader.end)
    return reader.report


class _Reader:
    def __init__(self) -> None:
        self.report = Report()
        self._path: list[str] = []
        self._test: str | None = None
        self._results: list[Result] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name not in _ROOTS:
            raise ReportUnreadable(f"expected a testsuite, found <{name[:80]}>")
        if len(self._path) >= _MAX_DEPTH:
            raise ReportUnreadable(f"more than {_MAX_DEPTH} levels")
        self._path.append(name)
        if name == "testcase":
            if self._test is not None or "name" not in attributes:
                raise ReportUnreadable("a test case without a name, or inside another one")
            self._test = f"{attributes.get('classname', '')}::{attributes['name']}"
            self._results = _from_status(attributes.get("status"))
        elif self._test is not None and self._path[-2] == "testcase" and name in _CHILDREN:
            self._results.append(_CHILDREN[name])

    def end(self, name: str) -> None:
        self._path.pop()
        if name == "testcase" and self._test is not None:
            for result in self._results or ["passed"]:
                self.report.add(self._test, result)
            self._test = None


def _from_status(status: str | None) -> list[Result]:
    """CTest says `run`, `fail`, `notrun` or `disabled` as an attribute; others say nothing."""
    found: dict[str, Result] = {"fail": "failed", "notrun": "skipped", "disabled": "skipped"}
    return [found[status]] if status in found else []
