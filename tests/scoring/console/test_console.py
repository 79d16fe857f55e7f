"""Console text of test runners: ids whole, no phantom tests, nothing lost; and never more than a summary of the
runner's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.console import read_jest_text, read_pytest_text, read_unittest_text, reader_of

ODD_IDS = r"""
PASSED t/test_a.py::test_of[one two-Bad 'deg' \\(x\\) in 'dist'. ]
FAILED t/test_a.py::test_of[file-Error-'str' has no 'read'-Tf] - TypeError: 'str' - has no [read]
PASSED t/test_a.py::test_label[für - 中文]
XFAIL t/test_a.py::test_label[x::y - z] - reason: later
SKIPPED [3] t/test_a.py:40: no network
PASSED t/test_a.py::test_label[[in] (out)]
FAILED t/test_a.py::test_open[a[b - c] - assert 1
ERROR t/test_broken.py - ModuleNotFoundError: x
"""


def test_ids_with_blanks_brackets_quotes_and_other_letters_are_whole() -> None:
    assert read_pytest_text(ODD_IDS.encode()) == {
        r"t/test_a.py::test_of[one two-Bad 'deg' \\(x\\) in 'dist'. ]": "passed",
        "t/test_a.py::test_of[file-Error-'str' has no 'read'-Tf]": "failed",
        "t/test_a.py::test_label[für - 中文]": "passed",
        "t/test_a.py::test_label[x::y - z]": "xfailed",
        "t/test_a.py::test_label[[in] (out)]": "passed",
        "t/test_a.py::test_open[a[b - c]": "failed",
        "t/test_broken.py": "error",
    }


def test_counters_are_no_tests() -> None:
    counters = b"t/test_a.py ....  [ 50%]\nPASSED [100%]\n"
    log = counters + b"= short test summary info =\nPASSED t/test_a.py::test_x\n= 4 passed =\n"
    assert read_pytest_text(log) == {"t/test_a.py::test_x": "passed"}


def test_verbose_lines_count_where_no_summary_stands() -> None:
    log = b"t/test_a.py::test_x[a b] PASSED   [ 50%]\nt/test_a.py::test_y SKIPPED (no net) [100%]\nx PASSED\n"
    assert read_pytest_text(log) == {"t/test_a.py::test_x[a b]": "passed", "t/test_a.py::test_y": "skipped"}


def test_output_that_looks_like_a_summary_is_not_believed() -> None:
    log = b"""-- Captured stdout call --
=== short test summary info ===
PASSED t/test_a.py::test_hidden
PASSED t/test_a.py::test_invented
=== short test summary info ===
FAILED t/test_a.py::test_hidden - assert 1 == 2
"""
    assert read_pytest_text(log) == {"t/test_a.py::test_hidden": "failed"}


def test_bytes_that_are_no_text_and_colours_break_nothing() -> None:
    log = b"PASSED t/a.py::x\n\xff\xfe raw\n\x1b[31mFAILED\x1b[0m t/a.py::y[\xe4\xb8\xad] - m\n\x00\n"
    log += b"PASSED t/a.py::\xff\r\n"
    assert read_pytest_text(log) == {"t/a.py::x": "passed", "t/a.py::y[中]": "failed", "t/a.py::\\xff": "passed"}


@given(st.binary(max_size=300))
def test_no_log_breaks_a_reader(log: bytes) -> None:
    for reader in (read_pytest_text, read_unittest_text, read_jest_text):
        assert all(isinstance(result, str) for result in reader(log).values())


def test_durations_are_no_part_of_a_name() -> None:
    log = (
        "  ✓ adds (12 ms)\n  ✓ adds \n  ✕ divides by 0 (3 ms)\n  ○ skipped later\n  ✓ waits (1.5 s)\n √ fast\n".encode()
    )
    assert read_jest_text(log) == {
        "adds": "passed", "divides by 0": "failed", "later": "skipped", "waits": "passed", "fast": "passed",
    }  # fmt: skip


def test_unittest_as_django_prints_it() -> None:
    log = b"""Creating test database
test_one (app.tests.One.test_one) ... ok
test_two (app.tests.One)
The first line of a docstring ... FAIL
test_three (app.tests.One) ... some output
and it is ok with that
ok
test_four (app.tests.One) ... skipped 'no database'
test_five (app.tests.One) ... expected failure
test_six (app.tests.One) ... noise ERROR
test_seven (app.tests.One) ...
======================================================================
FAIL: test_two (app.tests.One)
test_seven (app.tests.One) ... ok
"""
    assert read_unittest_text(log) == {
        "test_one (app.tests.One.test_one)": "passed",
        "test_two (app.tests.One)": "failed",
        "test_three (app.tests.One)": "passed",
        "test_four (app.tests.One)": "skipped",
        "test_five (app.tests.One)": "xfailed",
        "test_six (app.tests.One)": "error",
    }


@pytest.mark.parametrize(
    ("repository", "log"), [("django/django", b"t (m.C) ... ok\n"), ("no/such", b"PASSED a.py::t\n")]
)
def test_a_repository_without_an_installed_parser_has_one_of_ours(repository: str, log: bytes) -> None:
    assert list(reader_of(repository)(log).values()) == ["passed"]
