"""Readers of runners' own report files, one a format; verdicts come from these and from no console text."""

from __future__ import annotations

from collections.abc import Callable

from scoring.reports.cargo import read_cargo
from scoring.reports.ctest import read_ctest
from scoring.reports.go import read_go
from scoring.reports.jest import read_jest
from scoring.reports.junit import read_junit
from scoring.reports.model import Report, ReportUnreadable
from scoring.reports.reward import read_reward
from scoring.reports.tap import read_tap

__all__ = ["Report", "ReportUnreadable", "file_name", "read_report"]

_READERS: dict[str, Callable[[bytes, str], Report]] = {
    "pytest": lambda content, workdir: read_junit(content),
    "ctest": lambda content, workdir: read_ctest(content),
    "go": lambda content, workdir: read_go(content),
    "cargo": lambda content, workdir: read_cargo(content),
    "tap": lambda content, workdir: read_tap(content),
    "jest": read_jest,
    "script": lambda content, workdir: read_reward(content),
}
_NAMES = {
    "pytest": "report.xml",
    "ctest": "report.xml",
    "jest": "report.json",
    "script": "reward.json",
    "tap": "report.tap",
}


def read_report(runner: str, content: bytes, workdir: str) -> Report:
    """The report of a runner; ReportUnreadable when it cannot be believed."""
    return _READERS[runner](content, workdir)


def file_name(runner: str) -> str:
    """Name of the report in post/."""
    return f"post/{_NAMES.get(runner, 'report.jsonl')}"
