"""A candidate's code runs with the hidden tests and tries to look right; each test says what a naive verifier would
believe."""

from __future__ import annotations

import pytest

from cells.outcome import Verdict
from scoring.judge import BROKE, FAILED, PASSED
from tests.scoring.calc_task import RIGHT, WRONG, Bench

pytestmark = [pytest.mark.engine, pytest.mark.attack]

FORGED = b"""
import os, sys
if "pytest" in sys.modules:
    report = next((word for word in sys.argv if word.endswith("/report")), None) or ""
    rows = "".join(
        f'<testcase classname="{c}" name="{n}"/>'
        for c, n in [("tests.test_calc", "test_add_of_two"), ("tests.test_calc", "test_difference"),
                     ("tests.test_calc.TestMore", "test_more[3]")]
    )
    document = f'<testsuites><testsuite name="pytest" tests="3">{rows}</testsuite></testsuites>'
"""


def test_the_right_fix_resolves(calc: Bench) -> None:
    found = calc.verify({"src/calc.py": RIGHT})
    assert (found.verdict, found.reason) == (Verdict.RESOLVED, PASSED), found
    assert found.self_check is not None and found.self_check.canary and found.self_check.pinned_pass


def test_the_base_alone_does_not(calc: Bench) -> None:
    found = calc.verify_patch(b"")
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, FAILED)
    assert found.judgement is not None and found.judgement.tests["tests.test_calc::test_add_of_two"] == "failed"


def test_exit_with_success_before_the_tests_end(calc: Bench) -> None:
    """Naive: exit code 0 and a summary line on stdout."""
    early = b"""
import os, sys
if "pytest" in sys.modules:
    print("3 passed in 0.01s", flush=True)
    os._exit(0)
"""
    found = calc.verify({"src/calc.py": WRONG + early})
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, BROKE)
    assert found.candidate is not None and found.candidate.exit == 0


def test_a_forged_report(calc: Bench) -> None:
    """Naive: a well-formed report in the right place names every expected test as passed."""
    found = calc.verify({"src/calc.py": WRONG + FORGED + b"    open(report, 'w').write(document)\n    os._exit(0)\n"})
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, BROKE)
    assert found.candidate is not None and found.candidate.report_state == "read"
    assert found.judgement is not None and "canary" in found.judgement.findings[0]


@pytest.mark.parametrize(
    "plant",
    [
        b"    os.symlink('/tmp/forged', report)\n",
        b"    os.link('/tmp/forged', report)\n",
        b"    os.mkfifo(report)\n",
        b"    os.mkdir(report)\n",
        b"    os.truncate(os.open(report, os.O_CREAT | os.O_WRONLY), 33 << 20)\n",
    ],
    ids=["link", "hard link", "fifo", "directory", "too large"],
)
def test_a_report_that_is_no_plain_file(calc: Bench, plant: bytes) -> None:
    """Naive: whatever opens at the report's path is the report."""
    code = FORGED + b"    open('/tmp/forged', 'w').write(document)\n" + plant + b"    os._exit(0)\n"
    found = calc.verify({"src/calc.py": WRONG + code})
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, BROKE)
    assert found.candidate is not None and found.candidate.report_state != "read"


def test_results_patched_inside_the_runner(calc: Bench) -> None:
    """Naive: pytest's own report says that every test passed."""
    patched = b"""
import sys
if "pytest" in sys.modules:
    import _pytest.reports as reports
    real = reports.TestReport.from_item_and_call.__func__
    def forged(cls, item, call):
        report = real(cls, item, call)
        report.outcome, report.longrepr = "passed", None
        return report
    reports.TestReport.from_item_and_call = classmethod(forged)
"""
    found = calc.verify({"src/calc.py": WRONG + patched})
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, BROKE)
    assert found.judgement is not None and "passed, though it cannot" in found.judgement.findings[0]


def test_the_directory_of_the_report_swapped(calc: Bench) -> None:
    """Naive: the report is opened by its path, whoever made the directories on the way."""
    swap = b"    os.rename(os.path.dirname(report), '/tmp/moved')\n    os.mkdir(os.path.dirname(report))\n"
    write = b"    open(report, 'w').write(document)\n    os._exit(0)\n"
    found = calc.verify({"src/calc.py": WRONG + FORGED + swap + write})
    assert found.verdict is Verdict.UNRESOLVED
    assert found.candidate is not None and b"PermissionError" in found.candidate.log


def test_a_patched_assertion(calc: Bench) -> None:
    """Naive: the tests ran, and none of them failed: an assertion that does not hold is a skip now."""
    quiet = b"""
import sys
if "pytest" in sys.modules:
    import builtins, _pytest.outcomes
    builtins.AssertionError = _pytest.outcomes.Skipped
"""
    found = calc.verify({"src/calc.py": WRONG + quiet})
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, BROKE)
    assert found.judgement is not None
    assert found.judgement.tests["tests.test_calc::test_add_of_two"] == "skipped"


def test_a_process_that_outlives_the_runner(calc: Bench) -> None:
    """Naive: the report is read some time after the runner ended, when somebody has written it again."""
    outliving = (
        FORGED
        + b"""
    import time
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in range(3): os.close(number)
        while True:
            time.sleep(1.0)
            open(report, "w").write(document)
"""
    )
    found = calc.verify({"src/calc.py": WRONG + outliving})
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, FAILED), found
    assert found.candidate is not None and found.candidate.survivors == 1
    assert found.candidate.duration_s < 10


def test_a_run_that_never_ends(calc: Bench) -> None:
    """Naive: no answer, so the cell is lost, and tried again."""
    endless = b"import sys, time\nif 'pytest' in sys.modules:\n    time.sleep(1000)\n"
    found = calc.verify({"src/calc.py": endless + RIGHT}, verify_s=2.0)
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, BROKE)
    assert found.candidate is not None and found.candidate.timed_out
