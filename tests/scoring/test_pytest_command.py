"""What a pytest command line says without being run."""

from __future__ import annotations

import pytest

from scoring.pytest_command import arguments_of, chooses_tests, stops_early, without_paths

PLAIN = ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", "{report}"]


@pytest.mark.parametrize(
    ("more", "chooses", "early"),
    [
        ([], False, False),
        (["tests/test_a.py", "tests"], False, False),
        (["tests/test_a.py::test_b"], True, False),
        (["-k", "not slow"], True, False),
        (["-m", "unit"], True, False),
        (["-x"], True, True),
        (["-qx"], True, True),
        (["--maxfail=1"], True, True),
        (["-rx"], False, False),
        (["-n", "2"], False, False),
    ],
)
def test_commands_that_may_leave_a_canary_out(more: list[str], chooses: bool, early: bool) -> None:
    assert chooses_tests(PLAIN + more) == chooses
    assert stops_early(PLAIN + more) == early


def test_a_shell_line_hides_what_it_runs() -> None:
    command = ["sh", "-c", "cd x && pytest"]
    assert arguments_of(command) is None and chooses_tests(command)
    assert arguments_of(["/opt/venv/bin/pytest", "-q"]) == 1


def test_known_paths_are_left_out_and_values_of_options_are_not() -> None:
    command = [*PLAIN, "tests/", "tests/test_a.py::test_b", "-c", "tests", "src", "-k", "tests"]
    assert without_paths(command, {"tests", "tests/test_a.py"}) == [*PLAIN, "-c", "tests", "src", "-k", "tests"]
