"""A native task directory as a person wrote it (20-interface): read, checked whole, nothing changed.

Rules:
1. The names at the top are fixed; anything else is refused, so that a misspelt `seald/` is not silently left out.
2. The base state stands in exactly one place: repo/, repo.tar, or the image named by digest.
3. Links stay inside repo/, sealed/ or prompt_images/; `task.toml` and `prompt.md` are plain files.
4. What the verifier needs is there: hidden tests, or verify.sh, and the template of a canary that is not automatic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cells.design.study_model import TighterLimits
from cells.errors import InputFileError
from cells.tasks.base_state import BaseEntry, check_base_name, entries_of_archive, entries_of_directory
from cells.tasks.task_model import TaskFile
from cells.tasks.tree import LINK, Member, TreeProblem, check_link, shown, tree_digest, walk_tree
from cells.toml_file import load_toml

TASK_FILE, PROMPT, IMAGES, REPO, ARCHIVE, SEALED = (
    "task.toml",
    "prompt.md",
    "prompt_images",
    "repo",
    "repo.tar",
    "sealed",
)
TESTS, GOLD, VERIFY_SCRIPT = "sealed/tests", "sealed/gold.patch", "sealed/verify.sh"
FREEZE_RECORD = "freeze.json"
"""Written by `freeze` beside the frozen members; never part of the digest."""
_FOLDERS = (IMAGES, REPO, SEALED)
_PLAIN = (TASK_FILE, PROMPT, ARCHIVE)
_ASIDE = ("README", "LICENSE", "LICENCE", "NOTICE", "COPYING")
_IMAGE_TYPES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


@dataclass(frozen=True)
class TaskDirectory:
    """A task directory that was read and found right. `sha256` is the task digest, unchanged by freezing."""

    directory: Path
    file: TaskFile
    members: tuple[Member, ...]
    sha256: str

    @property
    def id(self) -> str:
        return self.file.id

    @property
    def repository(self) -> str:
        return self.file.repository

    @property
    def recipe_sha256(self) -> str:
        return self.file.image.recipe_sha256

    @property
    def limits(self) -> TighterLimits:
        return self.file.limits

    @property
    def has_gold(self) -> bool:
        """Whether a gold patch is there; without one the oracle control cannot run."""
        return has_member(self.members, GOLD)

    def base_entries(self) -> Iterator[BaseEntry] | None:
        """The base state's files, or None when the image holds it."""
        return base_entries(self.directory, self.members)


def load_task(directory: Path) -> TaskDirectory:
    """Read and check a task directory. InputFileError (exit 2) names file, line and key, and what was expected."""
    if not directory.is_dir():
        raise InputFileError(str(directory), f"no such task directory; expected one that holds {TASK_FILE}")
    task = read_task(directory, ignore=frozenset())
    if has_member(task.members, ARCHIVE):
        _check_archive(directory / ARCHIVE)
    return task


def read_task(directory: Path, ignore: frozenset[bytes]) -> TaskDirectory:
    """As `load_task`, leaving out members at the top whose names are in `ignore`."""
    file, _ = load_toml(directory / TASK_FILE, TaskFile)
    try:
        members = tuple(member for member in walk_tree(directory) if member.path not in ignore)
        for member in members:
            _check_place(member)
    except TreeProblem as problem:
        raise InputFileError(str(directory / shown(problem.path)), problem.message) from problem
    except OSError as error:
        raise InputFileError(str(directory), f"cannot be read: {error.strerror} ({error.filename!r})") from error
    _check_parts(directory, file, members)
    return TaskDirectory(directory, file, members, tree_digest(members))


def base_entries(directory: Path, members: tuple[Member, ...]) -> Iterator[BaseEntry] | None:
    """The base state below a task directory, or None when the image holds it."""
    if has_member(members, ARCHIVE):
        return entries_of_archive(directory / ARCHIVE)
    return entries_of_directory(directory / REPO) if _has_folder(members, REPO) else None


def has_member(members: tuple[Member, ...], name: str) -> bool:
    """Whether a file or link of exactly this name is there."""
    return any(member.path == name.encode() for member in members)


def _check_archive(archive: Path) -> None:
    try:
        for _ in entries_of_archive(archive):
            pass
    except TreeProblem as problem:
        raise InputFileError(str(archive), str(problem)) from problem


def _check_place(member: Member) -> None:
    top, _, below = member.path.partition(b"/")
    name = shown(top)
    if below:
        if name not in _FOLDERS:
            raise TreeProblem(member.path, f"a task directory holds no {name}/; it may hold {', '.join(_FOLDERS)}")
        if member.mode == LINK:
            check_link(below, member.target)
        if name == REPO:
            check_base_name(below)
    elif member.mode == LINK or not (name in _PLAIN or name.upper().startswith(_ASIDE)):
        raise TreeProblem(
            member.path, f"expected at the top of a task directory: {', '.join((*_PLAIN, *_FOLDERS))}; plain files only"
        )
    if name == IMAGES and not shown(below).lower().endswith(_IMAGE_TYPES):
        raise TreeProblem(member.path, f"expected a picture ({' '.join(_IMAGE_TYPES)})")


def _check_parts(directory: Path, file: TaskFile, members: tuple[Member, ...]) -> None:
    prompt = next((member for member in members if member.path == PROMPT.encode()), None)
    if prompt is None or prompt.size == 0:
        raise InputFileError(str(directory / PROMPT), "expected the prompt of the task; it is missing or empty")
    states = [name for name in (REPO, ARCHIVE) if has_member(members, name) or _has_folder(members, name)]
    if len(states) > 1 or (not states and file.image.digest is None):
        raise InputFileError(
            str(directory),
            f"the base state must stand in one place: {REPO}/, {ARCHIVE}, or an image by digest; "
            f"found {' and '.join(states) or 'none'}",
        )
    if not (_has_folder(members, TESTS) or has_member(members, VERIFY_SCRIPT)):
        raise InputFileError(
            str(directory / SEALED), f"expected hidden tests in {TESTS}/ or a {VERIFY_SCRIPT}; found neither"
        )
    canary = file.verify.canary
    if canary != "auto" and not has_member(members, f"{SEALED}/{canary}"):
        raise InputFileError(
            str(directory / TASK_FILE),
            f'expected "auto" or the path below {SEALED}/ of a template; found {canary!r}',
            key="verify.canary",
        )


def _has_folder(members: tuple[Member, ...], name: str) -> bool:
    return any(member.path.startswith(name.encode() + b"/") for member in members)
