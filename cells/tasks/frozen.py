"""A task frozen into a study: a copy whose digest is recorded beside it and verified whenever it is opened.

Rules:
1. A frozen task appears by one rename and is never changed; the same task again is the same directory,
   another one under its name is a conflict.
2. sealed/ is 0700 and no live code gets a path to it: the live side sees a `LiveTask`.
3. `open_frozen` recomputes the digest of every member and names the first that differs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cells.design.study_model import TighterLimits
from cells.errors import ConflictError, EvidenceError, InputFileError
from cells.evidence.digest import canonical_json
from cells.evidence.files import read_json, read_regular, sync_directory, write_new
from cells.tasks import directory as layout
from cells.tasks.base_state import BaseEntry
from cells.tasks.directory import FREEZE_RECORD, TaskDirectory, read_task
from cells.tasks.task_model import VerifySection
from cells.tasks.tree import EXECUTABLE, LINK, Member, open_member, tree_digest, tree_index

FREEZE_VERSION = 1
_RECORD_ASIDE = frozenset({FREEZE_RECORD.encode()})


@dataclass(frozen=True)
class PromptImage:
    """A picture that belongs to the prompt."""

    name: str
    content: bytes


@dataclass(frozen=True)
class LiveTask:
    """What the live side may know of a task: no path, no test, no gold patch."""

    id: str
    prompt: bytes
    workdir: str
    limits: TighterLimits
    images: tuple[PromptImage, ...]


@dataclass(frozen=True)
class FrozenTask:
    """A task as the study holds it; `prompt` as bytes."""

    task: TaskDirectory
    prompt: bytes

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def repository(self) -> str:
        """The cluster of the statistics."""
        return self.task.repository

    @property
    def sha256(self) -> str:
        """The task digest: every member's path, mode, link target and content."""
        return self.task.sha256

    @property
    def recipe_sha256(self) -> str:
        return self.task.recipe_sha256

    @property
    def workdir(self) -> str:
        return self.task.file.workdir

    @property
    def limits(self) -> TighterLimits:
        return self.task.limits

    @property
    def verify(self) -> VerifySection:
        return self.task.file.verify

    @property
    def directory(self) -> Path:
        return self.task.directory

    @property
    def sealed(self) -> Path:
        """The verifier pack: post-run only."""
        return self.directory / layout.SEALED

    @property
    def images(self) -> tuple[PromptImage, ...]:
        """The prompt's pictures, in the order of their names."""
        return tuple(_pictures(self.task))

    def gold_patch(self) -> bytes:
        """The gold patch: for the oracle control and checks of tasks only. EvidenceError when the task has none."""
        return read_regular(self.directory / layout.GOLD)

    def base_entries(self) -> Iterator[BaseEntry] | None:
        """The base state's files, or None when the image holds it."""
        return self.task.base_entries()

    def live(self) -> LiveTask:
        """The part that the live side gets."""
        return LiveTask(self.id, self.prompt, self.workdir, self.limits, self.images)


def freeze(task: TaskDirectory, destination: Path) -> FrozenTask:
    """Copy the task to `destination` (its parent exists) and record its digest.

    The same task already there is opened; ConflictError when another one is.
    InputFileError when the source changed since it was read.
    """
    if destination.exists():
        return _adopt(task, destination)
    stage = destination.with_name(f".{destination.name}.{os.getpid()}.freezing")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(mode=0o755)
    for member in task.members:
        _copy(task.directory, member, stage)
    _check_copy(task, stage)
    record = {"v": FREEZE_VERSION, "sha256": task.sha256, "members": tree_index(task.members)}
    write_new(stage / FREEZE_RECORD, canonical_json(record))
    _make_durable(stage)
    os.rename(stage, destination)
    sync_directory(destination.parent)
    return open_frozen(destination)


def open_frozen(directory: Path) -> FrozenTask:
    """The frozen task, its digest verified. EvidenceError names what differs from the record."""
    record = _record(directory)
    try:
        task = read_task(directory, _RECORD_ASIDE)
    except InputFileError as problem:
        raise EvidenceError(f"frozen task changed: {problem}") from problem
    _compare(directory, record, task.members)
    return FrozenTask(task, read_regular(directory / layout.PROMPT))


def _adopt(task: TaskDirectory, destination: Path) -> FrozenTask:
    held = open_frozen(destination)
    if held.sha256 != task.sha256:
        raise ConflictError(
            f"{destination}: holds the task digest {held.sha256}, asked to freeze {task.sha256}; "
            "a frozen task is never replaced"
        )
    return held


def _copy(source: Path, member: Member, stage: Path) -> None:
    target = os.path.join(os.fsencode(stage), member.path)
    parent = os.path.dirname(target)
    os.makedirs(parent, exist_ok=True)
    if member.mode == LINK:
        os.symlink(member.target, target)
        return
    with open_member(os.path.join(os.fsencode(source), member.path)) as reader, open(target, "xb") as writer:
        shutil.copyfileobj(reader, writer)
        os.fchmod(writer.fileno(), 0o555 if member.mode == EXECUTABLE else 0o444)


def _check_copy(task: TaskDirectory, stage: Path) -> None:
    copied = read_task(stage, frozenset())
    if copied.sha256 != task.sha256:
        raise InputFileError(str(task.directory), "changed while it was being frozen; run the command again")


def _make_durable(stage: Path) -> None:
    for where, _, names, descriptor in os.fwalk(stage):
        for name in names:
            if not os.path.islink(os.path.join(where, name)):
                _sync(name, descriptor)
        os.fsync(descriptor)
    os.chmod(stage / layout.SEALED, 0o700)


def _sync(name: str, directory: int) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _record(directory: Path) -> dict[str, object]:
    record = read_json(directory / FREEZE_RECORD)
    if not isinstance(record, dict) or record.get("v") != FREEZE_VERSION:
        raise EvidenceError(
            f"{directory / FREEZE_RECORD}: expected a freeze record of version {FREEZE_VERSION}; this directory was "
            "written by another version or changed by hand"
        )
    return record


def _compare(directory: Path, record: dict[str, object], members: tuple[Member, ...]) -> None:
    found = tree_index(members)
    recorded = record.get("members")
    if recorded != found or record.get("sha256") != tree_digest(members):
        recorded = recorded if isinstance(recorded, dict) else {}
        names = sorted(name for name in {*found, *recorded} if found.get(name) != recorded.get(name))
        raise EvidenceError(
            f"{directory}: the frozen task differs from its record in {names[0] if names else FREEZE_RECORD}"
        )


def _pictures(task: TaskDirectory) -> Iterator[PromptImage]:
    for member in task.members:
        folder, _, name = member.path.partition(b"/")
        if folder == layout.IMAGES.encode() and member.mode != LINK:
            with open_member(os.path.join(os.fsencode(task.directory), member.path)) as stream:
                yield PromptImage(name.decode("utf-8", "backslashreplace"), stream.read())
