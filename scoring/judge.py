"""Judgements about runs of a verifier: whether it proved itself, and what the expected tests say. Pure; fails closed.

Rules (20-interface, "Outcomes"):
1. Before the patch everything is the verifier's: what fails then makes the verification invalid.
2. After the patch everything is the candidate's: a test that is missing, skipped, or named twice with one failure
   failed;
   so did all of them without a whole report.
3. Resolved means: every expected test, and no other, decided it, and all passed; or, for a script, that the reward is
   1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cells.outcome import Verdict
from scoring.canary import Canary
from scoring.reports import Report, ReportUnreadable, read_report

PASSED, FAILED, BROKE = "tests_passed", "tests_failed", "candidate_broke_run"
TestState = Literal["passed", "failed", "skipped", "missing"]
_NO_TOOL = {126: "the command is not executable", 127: "the command, or a tool that it needs, was not found"}


@dataclass(frozen=True)
class RunFacts:
    """How a run ended; `exit` None at a timeout, negative for a signal; `report_state` is `read` or why there is
    none."""

    exit: int | None
    timed_out: bool
    duration_s: float
    report_state: str
    survivors: int
    report: bytes = b""
    log: bytes = b""


@dataclass(frozen=True)
class SelfCheck:
    """What the verifier proved on the base. None: there was nothing to prove it with."""

    runner: bool
    canary: bool | None
    pinned_pass: bool | None
    ok: bool
    detail: str


@dataclass(frozen=True)
class Expected:
    """The tests that decide, and how their report is read."""

    runner: str
    workdir: str
    f2p: tuple[str, ...]
    p2p: tuple[str, ...]


@dataclass(frozen=True)
class Judgement:
    """What a candidate's run says. For a script `reward` decides and the tests are none."""

    verdict: Verdict
    reason: str
    tests: Mapping[str, TestState]
    findings: tuple[str, ...] = ()
    reward: str | None = None


def check_self(facts: RunFacts, expected: Expected, canary: Canary | None) -> SelfCheck:
    """Judge the run on the base."""
    if facts.exit in _NO_TOOL:
        return SelfCheck(False, None, None, False, f"exit {facts.exit}: {_NO_TOOL[facts.exit or 0]}")
    try:
        report = _report(facts, expected)
    except ReportUnreadable as problem:
        return SelfCheck(False, None, None, False, f"no report on the base: {problem}")
    if expected.runner == "script":
        fails = report.reward != 1
        return SelfCheck(True, fails, None, fails, "reward on the base below 1" if fails else "the base has reward 1")
    if canary is None:
        return _proved_by_base(report, expected)
    failed = canary.results(report.tests) == {"failed"}
    pinned = None if canary.pinned is None else report.tests.get(canary.pinned) == "passed"
    words = [f"canary {canary.name} {'failed, as it must' if failed else f'is {_seen(canary, report)}'}"]
    if canary.pinned is not None:
        words.append(f"{canary.pinned} is {report.tests.get(canary.pinned, 'missing')}")
    return SelfCheck(True, failed, pinned, failed and pinned is not False, "; ".join(words))


def judge(facts: RunFacts, expected: Expected, canary: Canary | None, canary_must_run: bool) -> Judgement:
    """Judge the run on base + patch."""
    try:
        report = _report(facts, expected)
    except ReportUnreadable as problem:
        tests: dict[str, TestState] = {} if expected.runner == "script" else dict.fromkeys(_all(expected), "missing")
        return Judgement(Verdict.UNRESOLVED, BROKE, tests, (_ending(facts), str(problem)))
    if expected.runner == "script":
        return _judge_reward(report, facts)
    found: dict[str, TestState] = {test: report.tests.get(test, "missing") for test in _all(expected)}
    findings = list(_findings(report, found, facts))
    broken = [test for test, state in found.items() if state in ("missing", "skipped") or test in report.repeated]
    forged = None if canary is None else _canary_problem(canary, report, canary_must_run)
    if forged is not None:
        return Judgement(Verdict.UNRESOLVED, BROKE, found, (forged, *findings))
    if facts.timed_out or (facts.exit or 0) < 0 or broken:
        return Judgement(Verdict.UNRESOLVED, BROKE, found, tuple(findings))
    passed = all(state == "passed" for state in found.values())
    return Judgement(
        Verdict.RESOLVED if passed else Verdict.UNRESOLVED, PASSED if passed else FAILED, found, tuple(findings)
    )


def broken_run(expected: Expected, problem: str) -> Judgement:
    """The judgement of a candidate whose run ended without an answer."""
    tests: dict[str, TestState] = {} if expected.runner == "script" else dict.fromkeys(_all(expected), "missing")
    return Judgement(Verdict.UNRESOLVED, BROKE, tests, (problem,))


def passed_of(tests: Mapping[str, str], names: Sequence[str]) -> dict[str, int]:
    """`{passed, total}` of some of the tests."""
    return {"passed": sum(tests.get(name) == "passed" for name in names), "total": len(names)}


def _all(expected: Expected) -> tuple[str, ...]:
    return (*expected.f2p, *expected.p2p)


def _report(facts: RunFacts, expected: Expected) -> Report:
    if facts.report_state != "read":
        raise ReportUnreadable(f"report {facts.report_state}; {_ending(facts)}")
    return read_report(expected.runner, facts.report, expected.workdir)


def _ending(facts: RunFacts) -> str:
    if facts.timed_out:
        return f"its time ended after {facts.duration_s:.0f} s"
    return f"the run ended with {facts.exit}"


def _proved_by_base(report: Report, expected: Expected) -> SelfCheck:
    failing = [test for test in expected.f2p if report.tests.get(test) != "passed"]
    pinned = next(iter(expected.p2p), None)
    passes = None if pinned is None else report.tests.get(pinned) == "passed"
    detail = f"{len(failing)} of {len(expected.f2p)} tests that must fail on the base do"
    if pinned is not None:
        detail += f"; {pinned} is {report.tests.get(pinned, 'missing')}"
    return SelfCheck(True, bool(failing), passes, bool(failing) and passes is not False, detail)


def _seen(canary: Canary, report: Report) -> str:
    return " and ".join(sorted(canary.results(report.tests))) or "missing"


def _judge_reward(report: Report, facts: RunFacts) -> Judgement:
    resolved = report.reward == 1 and not facts.timed_out
    verdict = Verdict.RESOLVED if resolved else Verdict.UNRESOLVED
    reason = PASSED if resolved else BROKE if facts.timed_out else FAILED
    return Judgement(verdict, reason, {}, (), str(report.reward))


def _canary_problem(canary: Canary, report: Report, must_run: bool) -> str | None:
    seen = canary.results(report.tests)
    if "passed" in seen:
        return f"the canary {canary.name} passed, though it cannot: results are forged"
    if not seen and must_run:
        return f"the canary {canary.name} is missing from the report"
    return None


def _findings(report: Report, found: Mapping[str, TestState], facts: RunFacts) -> Sequence[str]:
    words = []
    if facts.survivors:
        words.append(f"{facts.survivors} processes outlived the run")
    if repeated := sorted(report.repeated & found.keys()):
        words.append(f"named more than once with different results: {', '.join(repeated[:5])}")
    if missing := [test for test, state in found.items() if state == "missing"]:
        words.append(f"missing: {', '.join(missing[:5])}{' and more' if len(missing) > 5 else ''}")
    return words
