"""The JSON files that the post-run side writes, as types: checked when written, exported as JSON Schemas.

Rules:
1. Unknown keys are refused; a change of meaning is a new `v`.
2. Unknown is null. Digests are `sha256:<hex>`, names of a cell are percent-encoded, exact numbers are text.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cells.artifacts import Writer
from cells.attempt import SealedAttempt
from cells.outcome import Ended, PatchState, Verdict
from scoring.step_files import put_json

Count = Annotated[int, Field(ge=0)]
Fraction = Annotated[str, Field(pattern=r"^\d+/[1-9]\d*$")]


class Document(BaseModel):
    """A file of ours: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    v: Literal[1]


class Part(BaseModel):
    """A part of a document."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DroppedChange(Part):
    """A change that is not verified."""

    path: str
    status: str
    reason: str


class GateFile(Document):
    """post/gate.json: what of the unfiltered patch is verified."""

    state: PatchState
    rejections: list[str]
    patch: str
    patch_bytes: Count
    round_trip: bool | None
    counts: dict[str, Count | None]
    dropped: list[DroppedChange]
    dropped_by_reason: dict[str, Count]


class LeakHit(Part):
    """Something sealed that the cell was shown before it wrote it, a newer commit, or an attempt to reach a network."""

    kind: Literal["sealed_line", "hidden_test_name", "pack_marker", "newer_commit", "network_attempt"]
    exchange: Count
    evidence: str
    sealed_in: str | None


class Scanned(Part):
    """How much a leak scan looked at."""

    texts: Count
    characters: Count


class LeaksFile(Document):
    """post/leaks.json."""

    exempt: str | None
    scanned: Scanned | None
    hits: list[LeakHit]
    contaminated: bool


class NoiseLimits(Part):
    """The study's limits; null is no limit."""

    max_cpu_throttled: float | None
    max_host_load_per_core: float | None


class NoiseFile(Document):
    """post/noise.json: seconds, MiB, counts, fractions."""

    samples: Count
    summary: dict[str, float | None]
    limits: NoiseLimits
    reasons: list[str]
    contaminated: bool


class CountedTests(Part):
    """Expected tests of one kind; `fraction` is exact and reduced, 0 of no tests by the stated rule."""

    passed: Count
    total: Count
    fraction: Fraction
    zero_total: bool


class Contaminated(Part):
    """Why a cell is marked; it changes no verdict."""

    leaks: bool
    noise: bool
    reasons: list[str]


class ScoreResultFile(Document):
    """post/score/score_result.json."""

    task: str
    ended: Ended
    outcome: str
    patch: PatchState
    verdict: Verdict
    reason: str
    resolved: Literal[0, 1] | None
    f2p: CountedTests | None
    p2p: CountedTests | None
    reward: str | None
    zero_total_rule: str
    patch_sha256: str
    patch_bytes: Count
    verify_sha256: str
    contaminated: Contaminated


class CheckpointFile(Document):
    """post/checkpoint.json: final status, model, solver, time; seconds."""

    status: Ended
    detail: str | None
    exit_code: int | None
    model: str | None
    solver: str | None
    started_at: str | None
    run_s: float | None


class PromptCache(Part):
    """Responses with and without a cache count; the token-weighted ratio, null if any required count is missing."""

    observed: Count
    unobserved: Count
    hit_ratio: float | None


class RoleTokens(Part):
    """Complete responses of one role; a sum is null as soon as one part is unknown."""

    responses: Count
    input: Count | None
    cached: Count | None
    output: Count | None


class MetricsFile(Document):
    """post/metrics.json: the saved-files contract's metric groups, and what the seal holds."""

    totals: dict[str, Any] | None
    timings: dict[str, Any] | None
    counters: dict[str, Any] | None
    tool_loading: dict[str, Count | None]
    length_continuations: Count
    file_checkpoints: dict[str, Any]
    prompt_cache: PromptCache
    tokens_by_role: dict[str, RoleTokens]
    subagents: dict[str, Count | None]
    model_fallback: dict[str, Any]
    api_errors: Count
    compactions: Count
    tool_calls: Count
    injections: Count
    configuration: dict[str, Any]


SCHEMAS: dict[str, type[BaseModel]] = {
    "gate": GateFile,
    "leaks": LeaksFile,
    "noise": NoiseFile,
    "score_result": ScoreResultFile,
    "checkpoint": CheckpointFile,
    "metrics": MetricsFile,
}


def put_document(
    sealed: SealedAttempt, name: str, kind: type[Document], content: dict[str, Any], writer: Writer
) -> None:
    """Check a document against its type and write or adopt it in canonical form. pydantic's ValidationError."""
    put_json(sealed, name, kind.model_validate(content).model_dump(mode="json"), writer)
