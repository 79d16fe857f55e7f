"""What a run says: the exact set of expected tests, whole reports, and nothing else."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.outcome import Verdict
from scoring.canary import Canary, make_canary
from scoring.judge import BROKE, FAILED, PASSED, Expected, RunFacts, check_self, judge

EXPECTED = Expected("pytest", "/workspace", ("t::turns", "t::turns_too"), ("t::stays",))
CANARY = make_canary({}, [], ["t::stays"], Random(0))


def facts(results: list[tuple[str, str]] | None, *, exit: int | None = 1, state: str = "read") -> RunFacts:
    """A run whose report names these results."""
    inner = {"passed": "", "failed": "<failure/>", "skipped": "<skipped/>"}
    rows = "".join(
        f'<testcase classname="{name.split("::")[0]}" name="{name.split("::")[1]}">{inner[result]}</testcase>'
        for name, result in results or ()
    )
    document = f"<testsuites><testsuite>{rows}</testsuite></testsuites>" if results is not None else "<testsuites><tes"
    return RunFacts(exit, exit is None, 1.0, state, 0, document.encode())


ALL_PASS = [("t::turns", "passed"), ("t::turns_too", "passed"), ("t::stays", "passed"), (f"t::{CANARY.name}", "failed")]


def changed(*results: tuple[str, str]) -> list[tuple[str, str]]:
    """All pass, but for these; `gone` is taken out."""
    kept = [(name, result) for name, result in ALL_PASS if name not in dict(results)]
    return [*kept, *((name, result) for name, result in results if result != "gone")]


@pytest.mark.parametrize(
    ("results", "verdict", "reason"),
    [
        (ALL_PASS, Verdict.RESOLVED, PASSED),
        ([*ALL_PASS, ("t::another", "failed"), ("t::more", "skipped")], Verdict.RESOLVED, PASSED),
        (changed(("t::turns", "failed")), Verdict.UNRESOLVED, FAILED),
        (changed(("t::stays", "failed")), Verdict.UNRESOLVED, FAILED),
        (changed(("t::turns", "gone")), Verdict.UNRESOLVED, BROKE),
        (changed(("t::stays", "skipped")), Verdict.UNRESOLVED, BROKE),
        ([*ALL_PASS, ("t::turns", "failed")], Verdict.UNRESOLVED, BROKE),
        ([*ALL_PASS, ("t::turns", "passed")], Verdict.RESOLVED, PASSED),
        ([], Verdict.UNRESOLVED, BROKE),
        (None, Verdict.UNRESOLVED, BROKE),
        (changed((f"t::{CANARY.name}", "passed")), Verdict.UNRESOLVED, BROKE),
        (changed((f"t::{CANARY.name}", "gone")), Verdict.UNRESOLVED, BROKE),
    ],
    ids=["all pass", "others do not count", "f2p fails", "p2p fails", "missing", "skipped", "twice, once failed",
         "twice passed", "no test at all", "half a report", "canary passes", "canary missing"],
)  # fmt: skip
def test_the_exact_set_decides(results: list[tuple[str, str]] | None, verdict: Verdict, reason: str) -> None:
    found = judge(facts(results), EXPECTED, CANARY, canary_must_run=True)
    assert (found.verdict, found.reason) == (verdict, reason)
    assert set(found.tests) == {"t::turns", "t::turns_too", "t::stays"}


@pytest.mark.parametrize(
    "run", [facts(ALL_PASS, exit=None), facts(ALL_PASS, exit=-9), facts(ALL_PASS, state="missing")]
)
def test_a_run_that_timed_out_died_or_left_no_report_failed(run: RunFacts) -> None:
    found = judge(run, EXPECTED, CANARY, canary_must_run=True)
    assert (found.verdict, found.reason) == (Verdict.UNRESOLVED, BROKE)


def test_a_command_that_chooses_its_tests_may_leave_the_canary_out() -> None:
    results = changed((f"t::{CANARY.name}", "gone"))
    assert judge(facts(results), EXPECTED, CANARY, canary_must_run=False).verdict is Verdict.RESOLVED
    forged = changed((f"t::{CANARY.name}", "passed"))
    assert judge(facts(forged), EXPECTED, CANARY, canary_must_run=False).verdict is Verdict.UNRESOLVED


@given(
    st.dictionaries(
        st.sampled_from(["t::turns", "t::turns_too", "t::stays"]), st.sampled_from(["passed", "failed", "skipped"])
    )
)
def test_resolved_exactly_when_every_expected_test_passed(results: dict[str, str]) -> None:
    found = judge(facts([*results.items(), (f"t::{CANARY.name}", "failed")]), EXPECTED, CANARY, canary_must_run=True)
    everything = len(results) == 3 and set(results.values()) == {"passed"}
    assert (found.verdict is Verdict.RESOLVED) == everything
    assert found.verdict is not Verdict.INVALID


@pytest.mark.parametrize(
    ("results", "exit", "ok"),
    [
        ([("t::stays", "passed"), (f"t::{CANARY.name}", "failed")], 1, True),
        ([("t::stays", "passed"), (f"t::{CANARY.name}", "passed")], 0, False),
        ([("t::stays", "failed"), (f"t::{CANARY.name}", "failed")], 1, False),
        ([("t::stays", "passed")], 0, False),
        ([(f"t::{CANARY.name}", "failed")], 1, False),
        ([], 5, False),
        (None, -9, False),
        ([("t::stays", "passed"), (f"t::{CANARY.name}", "failed")], 127, False),
    ],
)
def test_a_verifier_proves_itself_or_is_invalid(results: list[tuple[str, str]] | None, exit: int, ok: bool) -> None:
    assert check_self(facts(results, exit=exit), EXPECTED, CANARY).ok is ok


@pytest.mark.parametrize(
    ("results", "ok"),
    [
        ([("t::turns", "failed"), ("t::turns_too", "passed"), ("t::stays", "passed")], True),
        ([("t::stays", "passed")], True),
        ([("t::turns", "passed"), ("t::turns_too", "passed"), ("t::stays", "passed")], False),
        ([("t::turns", "failed"), ("t::stays", "failed")], False),
    ],
)
def test_without_a_canary_the_base_itself_proves(results: list[tuple[str, str]], ok: bool) -> None:
    assert check_self(facts(results), EXPECTED, None).ok is ok


@pytest.mark.parametrize(
    ("reward", "verdict"),
    [("1", Verdict.RESOLVED), ("1.0", Verdict.RESOLVED), ("0.999999", Verdict.UNRESOLVED), ("0", Verdict.UNRESOLVED)],
)
def test_a_reward_of_exactly_one_resolves(reward: str, verdict: Verdict) -> None:
    script = Expected("script", "/workspace", ("reward",), ())
    found = judge(RunFacts(0, False, 1.0, "read", 0, reward.encode()), script, None, canary_must_run=False)
    assert found.verdict is verdict and found.tests == {}


def test_the_canary_is_told_from_tests_that_only_begin_like_it() -> None:
    canary = Canary(b"t.py", b"", "test_a_first", None, (), True)
    assert canary.results({"t::test_a_first_again": "passed", "t::test_a_first[1]": "failed"}) == {"failed"}
