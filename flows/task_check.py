"""`assay tasks check`: a task counts only where its gold patch resolves it and its empty patch does not.

Rules:
1. On this machine, with this image, by the verifier that cells use (20-interface, "Outcomes"; 30-evidence C6).
2. Whatever cannot be said is not ok: an image that cannot be built, a verifier that does not prove itself.
3. A task whose limit is below three times the gold control's time is unfit.
4. Over several repeats, an expected test whose result is not always the same on the same tree is flaky.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cells.design.limits import study_limits
from cells.design.study_model import LimitsSection
from cells.errors import EvidenceError, InfraFailure
from cells.outcome import Verdict
from cells.sandbox import Owner, SandboxFactory
from cells.tasks import FrozenTask
from cells.tasks.image import TaskImage
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.images import build_task_image
from scoring.pack import VerifierPack, read_pack
from scoring.verification import Verification, VerifyCase, verify_patch

WORKERS = 2
TIME_FACTOR = 3.0
"""The verifier's limit is at least this many times the gold control's time (20-interface, [verify] timeout_s)."""
_OWNER_S = 3600.0


@dataclass(frozen=True)
class TaskCheck:
    """What the controls of a task said. `gold` and `empty` are verdicts, `flaky` test ids, `gold_s` seconds."""

    id: str
    task_sha256: str
    image_id: str | None
    gold: Verdict
    empty: Verdict
    reason: str
    flaky: tuple[str, ...] = ()
    gold_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the task may enter a study without being named."""
        return self.reason == ""

    def as_json(self) -> dict[str, Any]:
        """A row of `assay tasks check --json`."""
        return {
            "id": self.id,
            "gold": self.gold.value,
            "empty": self.empty.value,
            "ok": self.ok,
            "reason": self.reason,
            "flaky": list(self.flaky),
            "task_sha256": self.task_sha256,
            "image_id": self.image_id,
            "gold_s": self.gold_s,
        }


@dataclass(frozen=True)
class CheckTools:
    """What a check needs of this machine."""

    build: Callable[[FrozenTask], TaskImage]
    sandboxes: SandboxFactory
    stop: threading.Event


Progress = Callable[[TaskCheck], None]


def check_tasks(
    tasks: Sequence[FrozenTask], engine: Engine, repeat: int = 1, on_progress: Progress = lambda check: None
) -> list[TaskCheck]:
    """Check every task, several at a time; in the order given. Raises Interrupted; other faults are in the result."""
    tools = CheckTools(lambda task: build_task_image(task, engine), DockerSandboxes(engine), threading.Event())
    with ThreadPoolExecutor(WORKERS) as pool:
        jobs = [pool.submit(check_task, task, tools, repeat) for task in tasks]
        results = []
        try:
            for job in jobs:
                results.append(job.result())
                on_progress(results[-1])
        except BaseException:
            tools.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return results


def check_task(task: FrozenTask, tools: CheckTools, repeat: int = 1) -> TaskCheck:
    """Gold and empty control of one task, `repeat` times each."""
    try:
        gold_patch, pack, image = task.gold_patch(), read_pack(task), tools.build(task)
    except (InfraFailure, EvidenceError) as failure:
        return TaskCheck(task.id, task.sha256, None, Verdict.INVALID, Verdict.INVALID, str(failure))
    gold = [_verify(task, image, pack, gold_patch, tools, f"gold {number}") for number in range(repeat)]
    empty = [_verify(task, image, pack, b"", tools, f"empty {number}") for number in range(repeat)]
    flaky = tuple(sorted(unsteady(gold) | unsteady(empty)))
    slowest = max((found.candidate.duration_s for found in gold if found.candidate), default=None)
    return TaskCheck(
        id=task.id,
        task_sha256=task.sha256,
        image_id=image.image_id,
        gold=_worst(gold, Verdict.RESOLVED),
        empty=_worst(empty, Verdict.UNRESOLVED),
        reason=why_unfit(gold, empty, flaky, task.verify.timeout_s),
        flaky=flaky,
        gold_s=None if slowest is None else round(slowest, 3),
    )


def why_unfit(
    gold: Sequence[Verification], empty: Sequence[Verification], flaky: Sequence[str], timeout_s: float
) -> str:
    """Why a task may not enter a study, "" when it may."""
    for name, found, wanted in (("gold", gold, Verdict.RESOLVED), ("empty", empty, Verdict.UNRESOLVED)):
        for one in found:
            if one.verdict is not wanted:
                detail = f": {one.detail}" if one.detail else _failed_tests(one)
                return f"{name} patch: {one.verdict.value} ({one.reason}){detail}; must be {wanted.value}"
    if flaky:
        return f"flaky: {', '.join(flaky[:3])}" + (f" and {len(flaky) - 3} more" if len(flaky) > 3 else "")
    slowest = max(one.candidate.duration_s for one in gold if one.candidate)
    if timeout_s < TIME_FACTOR * slowest:
        return f"timeout_s is {timeout_s:g}; the gold control took {slowest:.1f} s, the limit must be 3 times that"
    return ""


def unsteady(found: Sequence[Verification]) -> set[str]:
    """Expected tests whose result differs between runs on the same tree."""
    seen: dict[str, set[str]] = {}
    for one in found:
        for name, state in (one.judgement.tests if one.judgement else {}).items():
            seen.setdefault(name, set()).add(state)
    return {name for name, states in seen.items() if len(states) > 1}


def _verify(
    task: FrozenTask, image: TaskImage, pack: VerifierPack, patch: bytes, tools: CheckTools, run: str
) -> Verification:
    own = task.limits.model_dump(exclude_none=True)
    case = VerifyCase(
        task=task,
        image=image,
        pack=pack,
        patch=patch,
        changes=(),
        limits=study_limits(LimitsSection(**{"verify_s": task.verify.timeout_s, **own})),
        owner=Owner(study="", cell=task.id, attempt="", role="verifier", deadline_s=_OWNER_S),
        seed=f"{task.sha256} {run}",
    )
    return verify_patch(case, tools.sandboxes, tools.stop)


def _worst(found: Sequence[Verification], wanted: Verdict) -> Verdict:
    return next((one.verdict for one in found if one.verdict is not wanted), wanted)


def _failed_tests(found: Verification) -> str:
    tests = found.judgement.tests if found.judgement else {}
    failed = [f"{name} {state}" for name, state in sorted(tests.items()) if state != "passed"]
    return f": {', '.join(failed[:3])}" if failed and found.verdict is not Verdict.RESOLVED else ""
