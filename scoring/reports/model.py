"""What a runner's report says, for every runner the same: each test once, with one of three results.

Rules:
1. A test named more than once has the worst of its results; that it was named with different ones is kept.
2. A report that is not whole, or that says what its format cannot say, is `ReportUnreadable`: never a partial result.
3. Console text is no report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from cells.errors import AssayError

Result = Literal["passed", "failed", "skipped"]
_WORSE: dict[Result, int] = {"passed": 0, "skipped": 1, "failed": 2}
MAX_TESTS = 200_000
MAX_ID = 8192


class ReportUnreadable(AssayError):
    """A report that cannot be believed: half, malformed, beyond a cap."""


@dataclass
class Report:
    """Results by test id; `reward` only for reward files (exact, between 0 and 1)."""

    tests: dict[str, Result] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    """Ids that were named more than once, with different results."""
    reward: Fraction | None = None

    def add(self, test: str, result: Result) -> None:
        """Take in one result."""
        if len(test) > MAX_ID:
            raise ReportUnreadable(f"test id of {len(test)} characters, allowed {MAX_ID}")
        before = self.tests.get(test)
        if before is None:
            if len(self.tests) >= MAX_TESTS:
                raise ReportUnreadable(f"more than {MAX_TESTS} tests")
            self.tests[test] = result
            return
        if before != result:
            self.repeated.add(test)
        self.tests[test] = max(before, result, key=_WORSE.__getitem__)
