"""The verify step of an attempt: runs the verification, and writes sealed_verify.log, the runner's report and
verify.json.

Rules:
1. verify.json is written last and holds the digests of patch, image, pack, log and report: it stands for the whole
   step.
2. An empty or rejected patch is not run: its verdict is fixed by the outcome table, and verify.json says so.
3. An invalid verification keeps its facts too; it says nothing about the candidate.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cells.artifacts import Role, Writer
from cells.attempt import SealedAttempt
from cells.evidence.digest import canonical_json, digest_bytes
from cells.outcome import PATCH_POLICY, PatchState, Verdict
from scoring.gate import Gated
from scoring.judge import RunFacts, passed_of
from scoring.reports import file_name
from scoring.step_files import discard
from scoring.verification import Verification, VerifyCase

NAME = "post/verify.json"
LOG = "post/sealed_verify.log"
_FIXED_REASON = {PatchState.EMPTY: "empty_patch", PatchState.REJECTED: "patch_rejected"}
UNAPPLIABLE = "patch_unappliable"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Passed(_Row):
    """How many of the expected tests passed."""

    passed: int = Field(ge=0)
    total: int = Field(ge=0)


class SelfCheckRow(_Row):
    """What the verifier proved before the patch; null: not known, or nothing to prove it with."""

    runner: bool
    canary: bool | None
    pinned_pass: bool | None
    ok: bool
    detail: str


class Verified(_Row):
    """verify.json (25-formats, "Verification")."""

    v: Literal[1] = 1
    version: int = 1
    """1 in the attempt; later verifications count up."""
    patch: str
    image: str
    verifier_pack: str
    patch_state: PatchState
    self_check: SelfCheckRow | None
    tests: dict[str, str]
    f2p: Passed | None
    p2p: Passed | None
    reward: str | None
    duration_s: float | None
    verdict: Verdict
    reason: str
    detail: str
    findings: tuple[str, ...]
    restored: tuple[str, ...]
    runs: dict[str, dict[str, Any]]
    files: dict[str, str]
    """Digests of log and report."""

    def as_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(self.model_dump(mode="json"))


def read_verified(sealed: SealedAttempt) -> Verified:
    """verify.json of an attempt."""
    return Verified.model_validate(json.loads(sealed.read(NAME, Role.SCORING)))


def fixed(case: VerifyCase, gated: Gated) -> Verified | None:
    """What the outcome table says without a run; None when the verifier decides."""
    policy = PATCH_POLICY[gated.state]
    if policy.verify or policy.verdict is None:
        return None
    verify = case.task.verify
    invalid = policy.verdict is Verdict.INVALID
    return Verified(
        version=case.version,
        patch=digest_bytes(case.patch),
        image=case.image.image_id,
        verifier_pack=case.pack.sha256,
        patch_state=gated.state,
        self_check=None,
        tests={},
        f2p=None if invalid else Passed(passed=0, total=len(verify.f2p)),
        p2p=None,
        reward=None,
        duration_s=None,
        verdict=policy.verdict,
        reason=_FIXED_REASON.get(gated.state, UNAPPLIABLE),
        detail="; ".join(gated.decision.rejections),
        findings=(),
        restored=(),
        runs={},
        files={},
    )


def verified_of(case: VerifyCase, found: Verification, files: dict[str, str]) -> Verified:
    """verify.json of a verification that ran."""
    judgement, verify = found.judgement, case.task.verify
    tests: dict[str, str] = dict(sorted(judgement.tests.items())) if judgement else {}
    script = verify.runner == "script"
    return Verified(
        version=case.version,
        patch=digest_bytes(case.patch),
        image=case.image.image_id,
        verifier_pack=case.pack.sha256,
        patch_state=PatchState.UNAPPLIABLE if found.reason == UNAPPLIABLE else PatchState.PRESENT,
        self_check=SelfCheckRow(**vars(found.self_check)) if found.self_check else None,
        tests=tests,
        f2p=Passed(**passed_of(tests, verify.f2p)) if judgement and not script else None,
        p2p=Passed(**passed_of(tests, verify.p2p)) if judgement and not script else None,
        reward=judgement.reward if judgement else None,
        duration_s=round(found.duration_s, 6),
        verdict=found.verdict,
        reason=found.reason,
        detail=found.detail,
        findings=judgement.findings if judgement else (),
        restored=found.restored,
        runs={name: _run(facts) for name, facts in (("base", found.base), ("candidate", found.candidate)) if facts},
        files=files,
    )


def write_verification(sealed: SealedAttempt, case: VerifyCase, found: Verification) -> Verified:
    """Write log, report and, last, verify.json."""
    report = file_name(case.task.verify.runner)
    discard(sealed, (LOG, report), Writer.VERIFIER)
    files = {LOG: sealed.write(LOG, log_of(found), Writer.VERIFIER)}
    if found.candidate is not None and found.candidate.report_state == "read":
        files[report] = sealed.write(report, found.candidate.report, Writer.VERIFIER)
    verified = verified_of(case, found, files)
    sealed.write(NAME, verified.as_bytes(), Writer.VERIFIER)
    return verified


def write_fixed(sealed: SealedAttempt, verified: Verified) -> Verified:
    """Write verify.json of a patch that is not run, with a log that says why."""
    discard(sealed, (LOG,), Writer.VERIFIER)
    text = f"not run: {verified.reason}\n{verified.detail}\n".encode()
    verified = verified.model_copy(update={"files": {LOG: sealed.write(LOG, text, Writer.VERIFIER)}})
    sealed.write(NAME, verified.as_bytes(), Writer.VERIFIER)
    return verified


def log_of(found: Verification) -> bytes:
    """sealed_verify.log: what both runs wrote. Evidence only: nothing in it is ever believed."""
    parts = [f"verdict: {found.verdict.value} ({found.reason}) {found.detail}\n".encode("utf-8", "replace")]
    for title, facts in (("on the base", found.base), ("on base + patch", found.candidate)):
        if facts is not None:
            head = f"==== {title}: exit {facts.exit}, {facts.duration_s:.3f} s, report {facts.report_state}\n"
            parts += [head.encode("utf-8", "replace"), facts.log, b"" if facts.log.endswith(b"\n") else b"\n"]
    return b"".join(parts)


def _run(facts: RunFacts) -> dict[str, Any]:
    return {
        "exit": facts.exit,
        "timed_out": facts.timed_out,
        "duration_s": round(facts.duration_s, 6),
        "report": facts.report_state,
        "survivors": facts.survivors,
    }
