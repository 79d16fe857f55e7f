"""From a draft to a study on disk: freeze once, compare ever after, revise only when asked.

Rules:
1. A study is made whole by one rename; a wrong study file creates nothing.
2. The same file again is the same plan; another one is refused with the difference, unless accepted as a revision.
3. A revision keeps what is frozen already: tasks that change get a folder of their own name and digest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from cells.design.cell import slug
from cells.design.diff import PlanDiff, diff_plans
from cells.design.plan import Plan, parse_plan, plan_file_name
from cells.errors import EvidenceError, UsageError
from cells.evidence.digest import canonical_json, short
from cells.evidence.files import write_new
from cells.evidence.roots import StudiesRoot
from cells.evidence.study_store import StudyStore
from cells.tasks.directory import TaskDirectory
from cells.tasks.frozen import FrozenTask, freeze, open_frozen
from flows.planning import Draft

STUDY_VERSION = 1


class PlanChanged(UsageError):
    """The study file asks for something else than the frozen plan; `diff` says what."""

    def __init__(self, study: str, diff: PlanDiff) -> None:
        shown = [f"  {c.kind}: {c.task}/{c.arm}/{c.sample}: {'; '.join(c.why[:3])}" for c in diff.changes[:8]]
        shown += [f"  design: {line}" for line in diff.design[:8]]
        more = len(diff.changes) + len(diff.design) - len(shown)
        text = "\n".join([*shown, *([f"  ... and {more} more"] if more > 0 else [])])
        super().__init__(
            f"the study file differs from the frozen plan of {study!r}:\n{text}\n"
            "`assay plan --diff` shows all, `assay plan --accept` makes it a revision; or choose another study.name"
        )
        self.diff = diff


@dataclass(frozen=True)
class FrozenStudy:
    """A study on disk and its current plan."""

    store: StudyStore
    plan: Plan

    def task(self, task_id: str) -> FrozenTask:
        """The frozen task of the plan, its digest verified."""
        entry = self.plan.task(task_id)
        frozen = open_frozen(task_folder(self.store.path, entry.id, entry.sha256))
        if frozen.sha256 != entry.sha256:
            raise EvidenceError(f"{frozen.directory}: task digest {frozen.sha256}, the plan asks for {entry.sha256}")
        return frozen

    def script(self, digest: str) -> Path:
        """The frozen script with this digest."""
        return script_path(self.store.path, digest)


def open_study(studies: Path, name: str, *, frozen: bool = False) -> FrozenStudy:
    """The study of this name. EvidenceError when it is of another version or was changed by hand."""
    store = StudyStore.open(StudiesRoot.open(studies), name, frozen=frozen)
    plan_name, content = store.plan()
    return FrozenStudy(store, parse_plan(content, plan_name))


def freeze_study(draft: Draft, studies: Path) -> FrozenStudy:
    """Freeze the draft, or open the study that is frozen already. PlanChanged when they differ."""
    root = StudiesRoot.ensure(studies)
    name = draft.plan.study
    if not (root.study_path(name) / "ledger.jsonl").exists():
        documents = {
            "study.json": canonical_json({"v": STUDY_VERSION, "name": name, "design": draft.plan.design}),
            "plan.lock.json": draft.plan.to_bytes(),
            "policy.json": canonical_json({"v": STUDY_VERSION, **draft.plan.design["policy"]}),
        }
        StudyStore.create(root, name, documents, populate=lambda directory: _populate(directory, draft))
    study = open_study(studies, name)
    diff = plan_diff(study, draft)
    if not diff.is_empty:
        raise PlanChanged(name, diff)
    return study


def plan_diff(study: FrozenStudy, draft: Draft) -> PlanDiff:
    """What the draft would change in the frozen study."""
    return diff_plans(study.plan, draft.plan)


def accept_revision(study: FrozenStudy, draft: Draft, verdicts_seen: bool) -> FrozenStudy:
    """Make the draft the next revision. `verdicts_seen`: somebody saw a verdict before; the report will say so."""
    diff = plan_diff(study, draft)
    if diff.is_empty:
        return study
    plan = replace(draft.plan, revision=study.plan.revision + 1, previous=study.plan.sha256)
    detail = {
        "revision": plan.revision,
        "previous": study.plan.sha256,
        "verdicts_seen": verdicts_seen,
        "kept": diff.kept,
        "changed": len(diff.changes),
        "design": list(diff.design),
    }
    with study.store.writing():
        _populate(study.store.path, draft)
        study.store.revise(plan_file_name(plan.revision), plan.to_bytes(), detail)
    return open_study(study.store.root.path, plan.study)


def task_folder(study: Path, task_id: str, sha256: str) -> Path:
    """Where a task is frozen: its name for people, its digest so that a changed task is another folder."""
    return study / "tasks" / f"{slug(task_id)}--{short(sha256)}"


def script_path(study: Path, digest: str) -> Path:
    """Where a script is frozen."""
    return study / "inputs" / "scripts" / f"{digest.removeprefix('sha256:')}.jsonl"


def _populate(directory: Path, draft: Draft) -> None:
    for folder in ("tasks", "inputs/scripts"):
        (directory / folder).mkdir(mode=0o750, parents=True, exist_ok=True)
    for task in draft.tasks:
        _freeze_task(directory, task)
    for digest, content in draft.scripts.items():
        path = script_path(directory, digest)
        if not path.exists():
            write_new(path, content)


def _freeze_task(directory: Path, task: TaskDirectory) -> None:
    freeze(task, task_folder(directory, task.file.id, task.sha256))
