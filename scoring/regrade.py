"""A later verification and score of an attempt that is published already, from its stored collection: the old ones
stay.

Rules:
1. The bundle is only read: its start, its live side and its collection are copied to scratch space, and the post-run
   steps run there.
2. The members of the new bundles are named as the contract's rows for later verifications and scores name them.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cells.attempt import SealedAttempt, open_sealed
from cells.errors import EvidenceError
from cells.evidence.files import read_regular
from cells.sandbox import SandboxFactory
from cells.tasks.frozen import FrozenTask
from cells.tasks.image import TaskImage
from scoring.collected import NAME as COLLECTED
from scoring.collected import read_collected
from scoring.post_run import DEFAULTS, PostResult, PostSettings, run_post
from scoring.verify import Verified, read_verified

_VERIFICATION = ("verify.json", "sealed_verify.log", "patch_gate.txt", "patch_gate.stderr", "gate.json", "verdict.txt")
_REPORTS = ("report.xml", "report.json", "report.jsonl", "report.tap", "reward.json")


@dataclass(frozen=True)
class Regraded:
    """What a regrade found, what the attempt's own verification said, and the members of the two new bundles by
    name."""

    result: PostResult
    before: Verified
    after: Verified
    verification: Mapping[str, bytes]
    scores: Mapping[str, bytes]
    changed_tests: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """Expected tests whose result differs: (before, after)."""


def regrade(
    bundle: Path,
    scratch: Path,
    task: FrozenTask,
    image: TaskImage,
    sandboxes: SandboxFactory,
    *,
    version: int,
    stop: threading.Event,
    settings: PostSettings = DEFAULTS,
) -> Regraded:
    """Gate, verify and score again. `scratch` does not exist yet; the caller removes it.

    EvidenceError when the bundle has no whole collection; Interrupted on stop.
    """
    source = open_sealed(bundle)
    if not source.has(COLLECTED):
        raise EvidenceError(f"{bundle}: asked to regrade; it has no whole collection (ended: {source.facts['ended']})")
    before = read_verified(source)
    copy = _copied(source, scratch)
    result = run_post(
        copy, task, image, sandboxes, collector=None, stop=stop, settings=replace(settings, version=version)
    )
    after = read_verified(copy)
    return Regraded(
        result,
        before,
        after,
        verification=_members(copy, (*_VERIFICATION, *_REPORTS, f"{task.id}.patch")),
        scores=_members(copy, _score_names(copy)),
        changed_tests=_changed(before.tests, after.tests),
    )


def _copied(source: SealedAttempt, scratch: Path) -> SealedAttempt:
    collected = read_collected(source)
    for phase in ("start", "live"):
        shutil.copytree(source.root / phase, scratch / phase)
    (scratch / "post").mkdir()
    for name in (COLLECTED, *collected.files):
        shutil.copyfile(source.root / name, scratch / name)
    return open_sealed(scratch)


def _score_names(copy: SealedAttempt) -> tuple[str, ...]:
    scores = [name.removeprefix("post/") for name in copy.names() if name.startswith("post/score/")]
    return ("verdict.txt", *scores)


def _members(copy: SealedAttempt, names: tuple[str, ...]) -> dict[str, bytes]:
    return {name: read_regular(copy.root / "post" / name) for name in names if copy.has(f"post/{name}")}


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    tests = sorted(before.keys() | after.keys())
    return {test: (before.get(test), after.get(test)) for test in tests if before.get(test) != after.get(test)}
