"""One verification of one patch: self-check on the base, then the hidden tests on base + patch, in one fresh container.

Rules (25-formats, "Verification"):
1. The canary is laid with the hidden tests, on the base and, where the command does not choose tests, under the patch
   too.
2. A self-check that fails ends it: nothing is said about the candidate.
3. An engine that was lost is tried once more; a verifier that does not prove itself is not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from cells.design.cell import CellLimits
from cells.errors import VerifierInvalid
from cells.incell.trusted.machinery import import_roots
from cells.incell.trusted.names import encode_name
from cells.outcome import Verdict
from cells.sandbox import Owner, SandboxFactory
from cells.tasks.frozen import FrozenTask
from cells.tasks.image import TaskImage
from scoring.canary import Canary, from_template, make_canary
from scoring.collected import Change
from scoring.judge import Expected, Judgement, RunFacts, SelfCheck, broken_run, check_self, judge
from scoring.pack import PackFile, VerifierPack
from scoring.pytest_command import arguments_of, chooses_tests, stops_early, without_paths
from scoring.verifier_session import CandidateDied, Prepared, VerifierSession, VerifierSetting, open_verifier

UNAPPLIABLE = "patch_unappliable"
SELF_CHECK = "self_check_failed"
_TRIES = 2


@dataclass(frozen=True)
class VerifyCase:
    """What is verified: a patch against a task, with the listing of its changes where there is one."""

    task: FrozenTask
    image: TaskImage
    pack: VerifierPack
    patch: bytes
    changes: tuple[Change, ...]
    limits: CellLimits
    owner: Owner
    seed: str
    """Seeds the canary: known to nobody before the attempt is sealed."""
    version: int = 1
    """Number of the verification among those of an attempt."""


@dataclass(frozen=True)
class Verification:
    """What a verification found. Without `candidate` the candidate's code never ran."""

    verdict: Verdict
    reason: str
    self_check: SelfCheck | None
    judgement: Judgement | None
    base: RunFacts | None
    candidate: RunFacts | None
    restored: tuple[str, ...]
    detail: str
    duration_s: float
    canary: str | None


def verify_patch(
    case: VerifyCase,
    sandboxes: SandboxFactory,
    stop: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> Verification:
    """Verify once, an engine that fails in between apart. Raises Interrupted; every other fault is a verdict
    `invalid`."""
    started = clock()
    failure: VerifierInvalid | None = None
    for _ in range(_TRIES):
        try:
            found = _Verifier(case, sandboxes, stop, clock).run()
            return replace(found, duration_s=clock() - started)
        except VerifierInvalid as error:
            failure = error
    assert failure is not None
    return _invalid(failure.reason, str(failure), clock() - started)


def expected_of(task: FrozenTask) -> Expected:
    """The tests that decide about a task."""
    verify = task.verify
    return Expected(verify.runner, task.workdir, verify.f2p, verify.p2p)


def canary_of(task: FrozenTask, pack: VerifierPack, random: Random) -> Canary | None:
    """The canary of one run; None where the run on the base proves itself (see docs/outcomes.md)."""
    verify = task.verify
    if verify.canary != "auto":
        name = verify.canary.encode()
        template = next(
            file for file in (*pack.beside, *pack.tests) if file.path in (name, name.removeprefix(b"tests/"))
        )
        return from_template(template.content, verify.p2p, random)
    if verify.runner != "pytest":
        return None
    files = {file.path: file.content for file in pack.tests if file.target is None and file.path.endswith(b".py")}
    return make_canary(files, verify.f2p, verify.p2p, random)


class _Verifier:
    def __init__(
        self, case: VerifyCase, sandboxes: SandboxFactory, stop: threading.Event, clock: Callable[[], float]
    ) -> None:
        self._case, self._sandboxes, self._stop, self._clock = case, sandboxes, stop, clock
        self._expected = expected_of(case.task)
        self._canary = canary_of(case.task, case.pack, Random(case.seed))

    def run(self) -> Verification:
        """The story: open, hand over, prove, patch, run, judge."""
        with open_verifier(self._setting(), self._sandboxes, self._stop, self._clock) as session:
            self._hand_over(session)
            base = session.run_on_base(self._request(self._self_check_command(), self._select()) | {"canary": True})
            check = check_self(base, self._expected, self._canary)
            if not check.ok:
                return self._result(Verdict.INVALID, SELF_CHECK, check, base, detail=check.detail)
            return self._candidate(session, check, base)

    def _hand_over(self, session: VerifierSession) -> None:
        """The pack; of the file that the canary stands in, both forms."""
        canary, tests = self._canary, self._case.pack.tests
        place = None if canary is None else canary.path
        session.hand_over("tree", [file for file in tests if file.path != place])
        session.hand_over("original", [file for file in tests if file.path == place])
        if canary is not None:
            session.hand_over("canary", [PackFile(canary.path, False, canary.content)])
        session.hand_over("beside", self._case.pack.beside)

    def _candidate(self, session: VerifierSession, check: SelfCheck, base: RunFacts) -> Verification:
        request = self._request(list(self._case.task.verify.command), []) | {
            "allowed": [encode_name(path) for path in sorted(self._case.pack.gold)],
            "import_roots": [encode_name(root) for root in self._import_roots()],
            "canary": not stops_early(self._case.task.verify.command),
        }
        try:
            prepared, facts = session.run_on_patch(request, self._case.patch, self._case.changes)
        except CandidateDied as death:
            judgement = broken_run(self._expected, str(death))
            return self._result(judgement.verdict, judgement.reason, check, base, judgement=judgement)
        if facts is None:
            return self._result(Verdict.INVALID, UNAPPLIABLE, check, base, detail=prepared.problem or "")
        must_run = self._canary is not None and not self._may_leave_canary_out()
        judgement = judge(facts, self._expected, self._canary, must_run)
        return self._result(
            judgement.verdict, judgement.reason, check, base, judgement=judgement, candidate=facts, prepared=prepared
        )

    def _result(
        self,
        verdict: Verdict,
        reason: str,
        check: SelfCheck,
        base: RunFacts,
        *,
        detail: str = "",
        judgement: Judgement | None = None,
        candidate: RunFacts | None = None,
        prepared: Prepared | None = None,
    ) -> Verification:
        restored = prepared.restored if prepared else ()
        name = self._canary.name if self._canary else None
        return Verification(verdict, reason, check, judgement, base, candidate, restored, detail, 0.0, name)

    def _setting(self) -> VerifierSetting:
        case = self._case
        return VerifierSetting(
            owner=case.owner,
            image_id=case.image.image_id,
            workdir=case.image.workdir,
            runner=case.task.verify.runner,
            limits=case.limits,
            environment=case.task.verify.env,
        )

    def _request(self, command: list[str], select: list[list[list[str]]]) -> dict[str, Any]:
        verify = self._case.task.verify
        return {
            "command": command,
            "select": select,
            "timeout_s": min(verify.timeout_s, self._case.limits.verify_s),
            "remove": [encode_name(path.encode("utf-8", "surrogateescape")) for path in verify.remove],
        }

    def _self_check_command(self) -> list[str]:
        """The task's command; for pytest without the paths that it names, since canary and pinned test are chosen
        instead."""
        command = list(self._case.task.verify.command)
        if not self._select():
            return command
        tests = {file.path.decode("utf-8", "replace") for file in self._case.pack.tests}
        folders = {path.rsplit("/", depth)[0] for path in tests for depth in range(1, path.count("/") + 1)}
        return without_paths(command, tests | folders)

    def _select(self) -> list[list[list[str]]]:
        if self._canary is None or arguments_of(self._case.task.verify.command) is None:
            return []
        return [[list(choice) for choice in alternatives] for alternatives in self._canary.select]

    def _may_leave_canary_out(self) -> bool:
        verify = self._case.task.verify
        return verify.runner == "pytest" and chooses_tests(verify.command)

    def _import_roots(self) -> tuple[bytes, ...]:
        return import_roots(self._case.task.verify.env, self._case.image.workdir)


def _invalid(reason: str, detail: str, duration_s: float) -> Verification:
    return Verification(Verdict.INVALID, reason, None, None, None, None, (), detail, duration_s, None)
