"""Release pairs: two consecutive releases of one project as a task, and the rules that split their files.

Rules:
1. Test files are tests/**, test/**, testing/**, test_*.py, *_test.py, tests.py, conftest.py, with the data beside them.
2. Package metadata that only a build reads (PKG-INFO at the top) belongs to neither side. The *.egg-info beside a
   package is what a program reads of its own version, and tests do compare it: it belongs to the gold patch.
3. Hidden tests are the test files of the new release; the gold patch is the difference of all other files.
4. Test files that only the old release has are taken away before the hidden tests run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from cells.design.study_model import Section
from cells.errors import InputFileError
from cells.tasks.base_state import BaseEntry
from cells.tasks.task_model import not_empty

_TEST_FOLDERS = {b"tests", b"test", b"testing"}
_TEST_NAME = re.compile(rb"test_.*\.py|.*_test\.py|tests\.py|conftest\.py")
_PROJECT = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
_VERSION = r"^[0-9][A-Za-z0-9.!+_-]*$"

Files = dict[bytes, BaseEntry]


class PairSection(Section):
    """[[pair]]: a project, two of its releases, and how many tests must turn (`f2p`) and stay (`p2p`), where known."""

    name: Annotated[str, Field(pattern=_PROJECT)]
    old: Annotated[str, Field(pattern=_VERSION)]
    new: Annotated[str, Field(pattern=_VERSION)]
    f2p: Annotated[int, Field(ge=1)] | None = None
    p2p: Annotated[int, Field(ge=0)] | None = None

    @property
    def task_id(self) -> str:
        """`<name>-<new>`: the id and the directory of the task."""
        return f"{self.name}-{self.new}"


class PairsFile(Section):
    """A file of release pairs."""

    pair: Annotated[tuple[PairSection, ...], Field(strict=False), AfterValidator(not_empty)]

    @model_validator(mode="after")
    def _distinct(self) -> PairsFile:
        ids = [pair.task_id for pair in self.pair]
        for name in ids:
            if ids.count(name) > 1:
                raise ValueError(f"two pairs give the task {name!r}")
        return self


@dataclass(frozen=True)
class SplitPair:
    """What a pair becomes: base, hidden tests, both sides of the gold patch, and the tests that `new` dropped."""

    base: Files
    hidden: Files
    old_other: Files
    new_other: Files
    dropped: tuple[bytes, ...]


def split_pair(old: Files, new: Files) -> SplitPair:
    """Apply the rules to the files of two releases."""
    hidden = {path: entry for path, entry in new.items() if is_test(path)}
    return SplitPair(
        base=old,
        hidden=hidden,
        old_other=_others(old),
        new_other=_others(new),
        dropped=tuple(sorted(path for path in old if is_test(path) and path not in hidden)),
    )


def is_test(path: bytes) -> bool:
    """Whether a path is a test file, or lies in a folder of tests."""
    *folders, name = path.split(b"/")
    return bool(_TEST_FOLDERS.intersection(folders)) or _TEST_NAME.fullmatch(name) is not None


def is_metadata(path: bytes) -> bool:
    """Whether a path is what a build writes about a package, and nothing but a build reads."""
    return path == b"PKG-INFO"


def below_top(entries: list[BaseEntry], source: str) -> Files:
    """The files of a source distribution without its top folder. InputFileError when it has not exactly one."""
    tops = {entry.path.split(b"/")[0] for entry in entries}
    if len(tops) != 1 or any(b"/" not in entry.path for entry in entries):
        raise InputFileError(
            source, f"expected one folder at the top of a source distribution; found {len(tops)} entries"
        )
    stripped = [BaseEntry(entry.path.partition(b"/")[2], entry.mode, entry.content) for entry in entries]
    return {entry.path: entry for entry in stripped}


def licence_of(files: Files) -> str | None:
    """The licence that a source distribution names in its metadata; None when it does not."""
    metadata = files.get(b"PKG-INFO")
    if metadata is None:
        return None
    head = metadata.content.decode("utf-8", "replace").split("\n\n", 1)[0]
    for pattern in (
        r"^License-Expression: (.+)$",
        r"^Classifier: License :: (?:.* :: )?(.+)$",
        r"^License: (.{1,60})$",
    ):
        found = re.search(pattern, head, re.MULTILINE)
        if found and found.group(1).strip().upper() != "UNKNOWN":
            return found.group(1).strip()
    return None


def _others(files: Files) -> Files:
    return {path: entry for path, entry in files.items() if not is_test(path) and not is_metadata(path)}
