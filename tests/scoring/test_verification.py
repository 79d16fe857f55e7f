"""Who is to blame when a verifier ends or falls silent, told with scripted containers; and what one verification
writes down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from cells.artifacts import Role
from cells.design.cell import CellLimits
from cells.errors import InfraFailure, Interrupted
from cells.outcome import PatchState, Verdict
from cells.sandbox import Exit, Frame, Owner
from cells.tasks.image import TaskImage
from launchers.scripted_sandbox import Replies, ScriptedSandboxes
from scoring.gate import Gated
from scoring.judge import BROKE
from scoring.pack import read_pack
from scoring.policy import Decision
from scoring.verification import SELF_CHECK, UNAPPLIABLE, Verification, VerifyCase, verify_patch
from scoring.verify import fixed, read_verified, write_fixed, write_verification
from tests.scoring.attempts import LIMITS, make_task, sealed_attempt
from tests.scoring.calc_task import FILES, TOML

IMAGE = TaskImage(
    "calc-1", "sha256:" + "5" * 64, "sha256:" + "6" * 64, "/workspace", "a" * 40, "1" * 40, "b" * 40, "1" * 40
)
SAID = Iterable[Frame | Exit]
OOM = Exit(137, oom_killed=True, killed_by_us=None, engine_changed=False)
LOST = Exit(137, oom_killed=True, killed_by_us=None, engine_changed=True)
KILLED = Exit(137, oom_killed=False, killed_by_us=None, engine_changed=False)
PREPARED = Frame({"type": "prepared", "problem": None, "restored": []})


@pytest.fixture
def case(tmp_path: Path) -> VerifyCase:
    task = make_task(tmp_path, TOML, FILES)
    limits = TypeAdapter(CellLimits).validate_python(LIMITS)
    return VerifyCase(
        task, IMAGE, read_pack(task), b"patch", (), limits, Owner("s", "c", "a001", "verifier", 60), "seed"
    )


def report(results: dict[str, str]) -> bytes:
    """A JUnit report."""
    inner = {"passed": "", "failed": "<failure/>"}
    rows = (
        f'<testcase classname="{name.partition("::")[0]}" name="{name.partition("::")[2]}">{inner[result]}</testcase>'
        for name, result in results.items()
    )
    return f"<testsuite>{''.join(rows)}</testsuite>".encode()


def ran(body: bytes, *, state: str = "read") -> Sequence[Frame]:
    """The answer to a run."""
    header = {"type": "ran", "exit": 1, "timed_out": False, "duration_s": 0.1, "report_state": state, "survivors": 0}
    return [Frame(header, body), Frame({"type": "log", "dropped": 0}, b"output\n")]


def verifier(
    candidate: Callable[[str], SAID],
    proves: bool = True,
    log: list[str] | None = None,
    fail: Callable[[str], None] = lambda operation: None,
) -> ScriptedSandboxes:
    """A verifier that proves itself (or does not), and says this about the candidate; told the canary's name."""

    def answer(frame: Frame) -> SAID:
        if log is not None:
            log.append(frame.header["kind"])
        if frame.header["kind"] == "candidate":
            return candidate(canary[0])
        canary[:] = [frame.header["select"][-1][0][1].rpartition("::")[2]]
        result = "failed" if proves else "passed"
        return ran(report({f"tests.test_calc::{canary[0]}": result, "tests.test_calc::test_difference": "passed"}))

    canary = [""]
    answers = {"open": lambda frame: [Frame({"type": "opened"})], "run": answer}
    return ScriptedSandboxes({"verifier": lambda: Replies(answers=answers)}, fail)


def resolved(canary: str) -> SAID:
    """Every expected test passed, the canary failed."""
    names = [
        "tests.test_calc::test_add_of_two",
        "tests.test_calc::test_difference",
        "tests.test_calc.TestMore::test_more[3]",
    ]
    return [PREPARED, *ran(report(dict.fromkeys(names, "passed") | {f"tests.test_calc::{canary}": "failed"}))]


def run(case: VerifyCase, sandboxes: ScriptedSandboxes) -> Verification:
    """Verify with a clock that runs ten minutes a look: a wait for a silent program ends at once."""
    now = [0.0]

    def clock() -> float:
        now[0] += 600.0
        return now[0]

    found = verify_patch(case, sandboxes, threading.Event(), clock)
    assert sandboxes.left() == []
    return found


@pytest.mark.parametrize(
    ("candidate", "verdict", "reason"),
    [
        (resolved, Verdict.RESOLVED, "tests_passed"),
        (lambda _: [PREPARED, OOM], Verdict.UNRESOLVED, BROKE),
        (lambda _: [PREPARED], Verdict.UNRESOLVED, BROKE),
        (lambda _: [PREPARED, LOST], Verdict.INVALID, "verifier_lost"),
        (lambda _: [PREPARED, KILLED], Verdict.INVALID, "verifier_lost"),
        (lambda _: [OOM], Verdict.INVALID, "verifier_lost"),
        (lambda _: [], Verdict.INVALID, "verifier_silent"),
        (lambda _: [Frame({"type": "error", "detail": "OSError: full"})], Verdict.INVALID, "verifier_failed"),
        (lambda _: [PREPARED, Frame({"type": "error", "detail": "x"})], Verdict.INVALID, "verifier_failed"),
        (lambda _: [PREPARED, Frame({"type": "ran", "exit": "0"}), Frame({"type": "log"})], Verdict.INVALID,
         "verifier_failed"),
        (lambda _: [Frame({**PREPARED.header, "problem": "error: no such file"})], Verdict.INVALID, UNAPPLIABLE),
    ],
    ids=["whole", "memory", "silence", "engine lost", "killed by somebody", "dies before the patch",
         "silent before the patch",
         "fails before the patch", "fails after it", "nonsense", "does not apply"],
)  # fmt: skip
def test_before_the_patch_the_verifier_is_to_blame_and_after_it_the_candidate(
    case: VerifyCase, candidate: Callable[[str], SAID], verdict: Verdict, reason: str
) -> None:
    found = run(case, verifier(candidate))
    assert (found.verdict, found.reason) == (verdict, reason)


def test_a_verifier_that_proves_nothing_never_sees_the_patch(case: VerifyCase) -> None:
    kinds: list[str] = []
    found = run(case, verifier(resolved, proves=False, log=kinds))
    assert (found.verdict, found.reason, kinds) == (Verdict.INVALID, SELF_CHECK, ["self_check"])


@pytest.mark.parametrize(
    ("failures", "verdict", "reason"),
    [(1, Verdict.RESOLVED, "tests_passed"), (2, Verdict.INVALID, "engine_lost")],
)
def test_an_engine_that_fails_once_is_asked_again(
    case: VerifyCase, failures: int, verdict: Verdict, reason: str
) -> None:
    left = [failures]

    def fail(operation: str) -> None:
        if operation == "start verifier" and left[0]:
            left[0] -= 1
            raise InfraFailure("engine_lost", "gone")

    found = run(case, verifier(resolved, fail=fail))
    assert (found.verdict, found.reason) == (verdict, reason)


def test_a_stop_interrupts_and_leaves_nothing(case: VerifyCase) -> None:
    sandboxes = verifier(lambda _: [PREPARED])
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        verify_patch(case, sandboxes, stop)
    assert sandboxes.left() == []


def test_verify_json_holds_digests_tests_and_self_check(case: VerifyCase, tmp_path: Path) -> None:
    sealed = sealed_attempt(tmp_path / "a001")
    written = write_verification(sealed, case, run(case, verifier(resolved)))
    assert read_verified(sealed) == written
    assert written.f2p is not None and (written.f2p.passed, written.f2p.total) == (1, 1)
    assert written.self_check is not None and written.self_check.ok
    assert set(written.files) == {"post/sealed_verify.log", "post/report.xml"}
    log = sealed.read("post/sealed_verify.log", Role.AUDIT)
    assert b"==== on the base" in log and b"==== on base + patch" in log


@pytest.mark.parametrize(
    ("state", "reason"), [(PatchState.EMPTY, "empty_patch"), (PatchState.REJECTED, "patch_rejected")]
)
def test_a_patch_that_is_not_run_has_the_verdict_of_the_table(
    case: VerifyCase, tmp_path: Path, state: PatchState, reason: str
) -> None:
    gated = Gated(Decision(state, rejections=("link out of the work directory: x -> /",)), b"")
    without = fixed(case, gated)
    assert without is not None
    sealed = sealed_attempt(tmp_path / "a001")
    write_fixed(sealed, without)
    found = read_verified(sealed)
    assert (found.verdict, found.reason, found.patch_state) == (Verdict.UNRESOLVED, reason, state)
    assert found.f2p is not None and found.f2p.passed == 0 and found.p2p is None
    assert fixed(case, Gated(Decision(PatchState.PRESENT), b"")) is None
