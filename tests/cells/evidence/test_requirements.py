"""Which test shows which of the sixty requirements of docs/evidence.md; a claim whose test does not exist is an
error."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

ELSEWHERE: dict[int, tuple[str, ...]] = {
    15: ("tests/cells/test_attempt.py::test_the_live_seal_binds_the_start_seal_and_every_member",),
    18: (
        "tests/cells/test_attempt.py::test_a_file_without_a_row_is_not_written",
        "tests/cells/artifacts/test_table.py::test_a_file_without_a_row_is_undeclared",
    ),
    22: (),
    23: (
        "tests/cells/test_attempt.py::test_nothing_is_sealed_before_the_start_is",
        "tests/cells/test_attempt.py::test_a_start_that_changed_before_the_seal_is_not_sealed",
    ),
    50: (
        "tests/cells/artifacts/test_every_row_refused.py::test_a_post_run_file_is_refused_to_a_live_role",
        "tests/cells/artifacts/test_access.py::test_the_prefix_ends_with_the_current_turn_and_a_torn_row_is_none",
    ),
    51: ("tests/cells/artifacts/test_access.py::test_only_named_fields_leave_the_reader",),
    52: (
        "tests/cells/artifacts/test_table.py::test_a_study_may_narrow_a_row",
        "tests/cells/artifacts/test_table.py::test_a_study_that_drops_a_condition_widens_and_is_refused",
    ),
    53: ("tests/cells/recording/test_state.py::test_the_same_trace_gives_the_same_bytes",),
    54: ("tests/cells/artifacts/test_access.py::test_controller_output_and_transcripts_are_no_detector_input",),
}
"""Requirement -> tests of other parts that show it; those of the evidence part carry the marker `requirement(n)`."""

NOT_YET: dict[int, str] = {
    22: "start/contracts/ is written and sealed; no test edits the repository's contract in the middle of a run",
    55: "branch bundles: the branch part",
    56: "fidelity: the replay part",
    57: "normalisation rules: the replay part",
    58: "restored settings: the replay part",
    59: "exactly-one resolver: the replay part",
}
"""What no test shows, and why."""


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def marked() -> Iterator[tuple[int, str]]:
    """(number, test) of every marker in the tests."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "requirement(" not in path.read_text():
            continue
        for name, node in functions(path).items():
            for decorator in node.decorator_list:
                found = re.fullmatch(r"pytest\.mark\.requirement\((\d+)\)", ast.unparse(decorator))
                if found:
                    yield int(found[1]), f"{path.relative_to(ROOT)}::{name}"


def shown() -> dict[int, set[str]]:
    found: dict[int, set[str]] = {number: set(tests) for number, tests in ELSEWHERE.items()}
    for number, test in marked():
        found.setdefault(number, set()).add(test)
    return {number: tests for number, tests in found.items() if tests}


def test_every_requirement_is_shown_or_listed_as_not_shown() -> None:
    assert set(shown()) | set(NOT_YET) == set(range(1, 61))
    assert set(shown()) & set(NOT_YET) == set(), "shown by now: take it off the list"


@pytest.mark.parametrize("test", sorted({test for tests in ELSEWHERE.values() for test in tests}))
def test_a_claimed_test_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in functions(ROOT / path)


def test_the_page_names_all_sixty() -> None:
    numbers = re.findall(r"\| (\d+) \| [^|]+", (ROOT / "docs/evidence.md").read_text())
    assert sorted(map(int, numbers)) == list(range(1, 61))
