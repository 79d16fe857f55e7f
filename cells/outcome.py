"""Outcomes: one table, fail closed. Retry, grading and counting derive from it and from nothing else.

Rules (20-interface, "Outcomes"):
1. How the live side ended, what the patch is, and what the verifier said are three different facts.
2. Only `infra_lost` makes a new attempt; `invalid` is verified again.
3. A cell that hit a limit is collected and graded.
4. An unknown failure is `infra_lost` (live) or `invalid` (post-run), never a score.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Ended(StrEnum):
    """How the live side of an attempt ended."""

    COMPLETED = "completed"
    HARNESS_ERROR = "harness_error"
    WALL_LIMIT = "wall_limit"
    TURN_LIMIT = "turn_limit"
    REQUEST_LIMIT = "request_limit"
    TOKEN_LIMIT = "token_limit"
    COST_LIMIT = "cost_limit"
    CONTEXT_LIMIT = "context_limit"
    STOPPED_BY_CONTROLLER = "stopped_by_controller"
    SANDBOX_BROKEN = "sandbox_broken"
    INFRA_LOST = "infra_lost"


class PatchState(StrEnum):
    """What the collected patch is."""

    PRESENT = "present"
    EMPTY = "empty"
    REJECTED = "rejected"
    UNAPPLIABLE = "unappliable"


class Verdict(StrEnum):
    """What is believed about the task after the run."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    INVALID = "invalid"
    NOT_RUN = "not_run"


EMPTY_PATCH = "empty_patch"
"""The outcome (not an `ended`) of an agent that completed and changed nothing."""


@dataclass(frozen=True)
class EndedPolicy:
    """The three questions that retry, grading and statistics ask about how a live side ended."""

    retry: bool
    collect: bool
    accept: bool


_GRADED = EndedPolicy(retry=False, collect=True, accept=True)
POLICY: dict[Ended, EndedPolicy] = dict.fromkeys(Ended, _GRADED) | {
    Ended.INFRA_LOST: EndedPolicy(retry=True, collect=False, accept=False)
}


@dataclass(frozen=True)
class PatchPolicy:
    """What a patch state means: `verify` runs the verifier, otherwise `verdict` is fixed."""

    verify: bool
    verdict: Verdict | None


PATCH_POLICY: dict[PatchState, PatchPolicy] = {
    PatchState.PRESENT: PatchPolicy(verify=True, verdict=None),
    PatchState.EMPTY: PatchPolicy(verify=False, verdict=Verdict.UNRESOLVED),
    PatchState.REJECTED: PatchPolicy(verify=False, verdict=Verdict.UNRESOLVED),
    PatchState.UNAPPLIABLE: PatchPolicy(verify=False, verdict=Verdict.INVALID),
}


def outcome_of(ended: Ended, patch: PatchState | None) -> str:
    """The outcome word of tables: `ended`, except `empty_patch` for a completed run that changed nothing."""
    if ended is Ended.COMPLETED and patch is PatchState.EMPTY:
        return EMPTY_PATCH
    return ended.value


def verdict_of(ended: Ended, patch: PatchState | None, verified: Verdict | None) -> Verdict:
    """The verdict of an attempt: `verified` is what the verifier said, None when it did not (yet) say anything
    valid.
    """
    if not POLICY[ended].collect:
        return Verdict.NOT_RUN
    if patch is None:
        return Verdict.INVALID
    fixed = PATCH_POLICY[patch].verdict
    return fixed if fixed is not None else (verified or Verdict.INVALID)


def resolved_of(verdict: Verdict) -> int | None:
    """1 or 0; None where nothing is known."""
    return {Verdict.RESOLVED: 1, Verdict.UNRESOLVED: 0}.get(verdict)


def is_accepted(verdict: Verdict) -> bool:
    """Whether a published attempt with this verdict is the accepted one of its cell."""
    return verdict is not Verdict.NOT_RUN
