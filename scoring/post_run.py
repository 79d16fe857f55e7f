"""The post-run side of one attempt as a story: collect, gate, verify, score (10-architecture, "One cell, as a story").

Rules:
1. Takes a `SealedAttempt` and nothing of the live side but the channel of its collector, which is asked once.
2. A step whose last file is there is not done again: a crash resumes at the first missing step, and the agent is never
   paid twice. A collection that is not whole and has no collector any more is InfraFailure("not_collected").
3. A fault of verifier, engine or host after the collection is the verdict `invalid`; the attempt is kept.
4. Publishing is somebody else's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cells.artifacts import Role
from cells.artifacts.conditions import Condition
from cells.attempt import SealedAttempt, open_sealed
from cells.design.study_model import NoiseSection
from cells.errors import AssayError, InfraFailure
from cells.outcome import POLICY, PatchState, Verdict
from cells.sandbox import Channel, Owner, SandboxFactory
from cells.tasks.frozen import FrozenTask, open_frozen
from cells.tasks.image import TaskImage
from scoring.collect import CollectLimits, collect
from scoring.collected import NAME as COLLECTED
from scoring.collected import TREE, Collected, read_collected, unfiltered_name
from scoring.gate import Gated, gate
from scoring.leak_index import LeakIndex, build_index
from scoring.pack import VerifierPack, read_pack
from scoring.records import CellRecord, ended_of, read_cell
from scoring.score import score
from scoring.tree_archive import regular_files
from scoring.verification import VerifyCase, verify_patch
from scoring.verify import NAME as VERIFIED
from scoring.verify import Verified, fixed, read_verified, write_fixed, write_verification

_DEADLINE_MARGIN_S = 3600.0


@dataclass(frozen=True)
class PostResult:
    """What the post-run side found. `contaminated` never changes the verdict."""

    verdict: Verdict
    patch: PatchState
    outcome: str
    reason: str
    resolved: int | None
    contaminated: bool


@dataclass(frozen=True)
class PostSettings:
    """What a study says about its post-run side: its name for labels, its seed, when the machine contaminates, caps."""

    study: str = ""
    seed: int = 0
    """With the digest of the live seal it draws the canary: nobody in the cell can know it."""
    noise: NoiseSection = field(default_factory=NoiseSection)
    limits: CollectLimits = field(default_factory=CollectLimits)
    version: int = 1
    """Number of the verification: 1 in the attempt itself."""


DEFAULTS = PostSettings()


def run_post(
    sealed: SealedAttempt,
    task: FrozenTask,
    image: TaskImage,
    sandboxes: SandboxFactory,
    *,
    collector: Channel | None,
    stop: threading.Event,
    on_phase: Callable[[str], None] = lambda phase: None,
    settings: PostSettings = DEFAULTS,
) -> PostResult:
    """Take a sealed attempt through its post-run steps.

    Raises InfraFailure when nothing whole was collected, Interrupted on stop, EvidenceError when files of an earlier
    try are not what this one makes of the same evidence.
    """
    if not POLICY[ended_of(sealed)].collect:
        raise InfraFailure("not_collected", f"the live side ended as {ended_of(sealed)}: there is nothing to collect")
    cell, pack = read_cell(sealed), pack_of(task)
    on_phase("collect")
    collected = collected_of(sealed, task, collector, settings.limits)
    on_phase("gate")
    gated = gate(sealed, task, pack, collected)
    on_phase("verify")
    case = VerifyCase(
        task=task,
        image=image,
        pack=pack,
        patch=gated.patch,
        changes=gated.changes,
        limits=cell.limits,
        owner=_owner(cell, settings.study),
        seed=f"{settings.seed} {settings.version} {sealed.seal_digest}",
        version=settings.version,
    )
    verified = verified_of_attempt(sealed, case, gated, sandboxes, stop)
    on_phase("score")
    scored = score(sealed, task, cell, verified, _index(sealed, task, cell, collected), settings.noise)
    return PostResult(
        scored.verdict, verified.patch_state, scored.outcome, scored.reason, scored.resolved, scored.contaminated
    )


def can_resume(root: Path) -> bool:
    """Whether a staged attempt can go on without its agent: its seals verify, and its collection is whole."""
    try:
        sealed = open_sealed(root)
        if not sealed.has(COLLECTED):
            return False
        read_collected(sealed)
    except (AssayError, OSError, ValueError):
        return False
    return True


def collected_of(
    sealed: SealedAttempt, task: FrozenTask, collector: Channel | None, limits: CollectLimits
) -> Collected:
    """The collection of an attempt: the one on disk, or a new one."""
    if sealed.has(COLLECTED):
        return read_collected(sealed)
    if collector is None:
        raise InfraFailure("not_collected", "the collection is not whole, and the collector that held the tree is gone")
    return collect(sealed, collector, task.id, limits)


def verified_of_attempt(
    sealed: SealedAttempt, case: VerifyCase, gated: Gated, sandboxes: SandboxFactory, stop: threading.Event
) -> Verified:
    """The verification of an attempt: the one on disk, the one that the outcome table fixes, or a new one."""
    if sealed.has(VERIFIED):
        return read_verified(sealed)
    without_run = fixed(case, gated)
    if without_run is not None:
        return write_fixed(sealed, without_run)
    return write_verification(sealed, case, verify_patch(case, sandboxes, stop))


@lru_cache(maxsize=32)
def _pack_of(directory: Path, sha256: str) -> VerifierPack:
    return read_pack(open_frozen(directory))


def pack_of(task: FrozenTask) -> VerifierPack:
    """The verifier pack of a frozen task, read once a process."""
    return _pack_of(task.directory, task.sha256)


def _owner(cell: CellRecord, study: str) -> Owner:
    limits = cell.limits
    name = str(cell.session.get("cell") or cell.session["cell_id"])
    deadline_s = 4 * limits.verify_s + _DEADLINE_MARGIN_S
    return Owner(study, name, str(cell.session["attempt"]), "verifier", deadline_s)


def _index(sealed: SealedAttempt, task: FrozenTask, cell: CellRecord, collected: Collected) -> LeakIndex | None:
    """What would be a leak; None for cells that are exempt or that asked no model."""
    if cell.control == "oracle" or not sealed.read("live/transcript.log", Role.AUDIT):
        return None if cell.control == "oracle" else LeakIndex({}, {}, {})
    if task.base_entries() is not None:
        return _task_index(task.directory, task.sha256)
    return _tree_index(sealed, task, collected)


@lru_cache(maxsize=32)
def _task_index(directory: Path, sha256: str) -> LeakIndex:
    task = open_frozen(directory)
    public = (entry.content for entry in task.base_entries() or ())
    return build_index(pack_of(task), _gold(task), _tests(task), public, task.prompt)


def _tree_index(sealed: SealedAttempt, task: FrozenTask, collected: Collected) -> LeakIndex:
    """Where the image holds the base: it is what the tree has unchanged, and the old side of what it changed."""
    changed = {change.name for change in collected.facts.changes}
    archive = sealed.read(TREE, Role.SCORING, Condition.FINAL_TREE)
    public = [content for path, content in regular_files(archive) if path not in changed]
    patch = sealed.read(unfiltered_name(task.id), Role.SCORING)
    public.append(b"\n".join(line[1:] for line in patch.split(b"\n") if line[:1] in (b" ", b"-")))
    return build_index(pack_of(task), _gold(task), _tests(task), public, task.prompt)


def _gold(task: FrozenTask) -> bytes:
    return task.gold_patch() if task.task.has_gold else b""


def _tests(task: FrozenTask) -> tuple[str, ...]:
    return (*task.verify.f2p, *task.verify.p2p)
