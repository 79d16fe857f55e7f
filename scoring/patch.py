"""A git patch as sections, bound one by one to the raw listing of the collector: names in the patch text are never
believed.

Rules:
1. A section belongs to the change at its place in the listing, and its header must say that change's modes and object
   ids.
2. A change of type (file to link, link to file) is two sections: the old side deleted, the new side created.
3. Sections are bytes; a patch is their concatenation, so a subset of sections is a patch again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cells.errors import AssayError
from cells.incell.trusted.names import decode_name
from scoring.collected import Change

_START = b"diff --git "
_NEXT = re.compile(rb"^diff --git ", re.MULTILINE)
_INDEX = re.compile(rb"index ([0-9a-f]{40})\.\.([0-9a-f]{40})(?: ([0-7]{6}))?\Z")
_MODES = (b"old mode ", b"new mode ", b"deleted file mode ", b"new file mode ")
_BODY = (b"--- ", b"GIT binary patch", b"Binary files ", b"@@ ")
ABSENT = "000000"
NO_OBJECT = "0" * 40


class PatchMismatch(AssayError):
    """Patch text and listing do not say the same: our own fault, since both come from one collection."""


@dataclass(frozen=True)
class Section:
    """The part of a patch that makes one change (or one side of a change of type)."""

    change: Change
    content: bytes
    binary: bool

    @property
    def path(self) -> bytes:
        """The path's bytes, from the listing."""
        return self.change.name


def sections_of(patch: bytes, changes: Sequence[Change]) -> list[Section]:
    """Cut a patch by its listing. PatchMismatch names the first place where they differ."""
    wanted = [side for change in changes for side in _sides(change)]
    pieces = _pieces(patch)
    if len(pieces) != len(wanted):
        raise PatchMismatch(f"patch of {len(pieces)} sections for a listing of {len(wanted)}")
    return [_section(piece, side) for piece, side in zip(pieces, wanted, strict=True)]


def join(sections: Iterable[Section]) -> bytes:
    """The patch that these sections make."""
    return b"".join(section.content for section in sections)


def is_outside(change: Change, workdir: str) -> bool:
    """Whether the new link of a change points out of the work directory: by its text alone, nothing is followed."""
    if change.target is None or change.new_mode != "120000":
        return False
    target = decode_name(change.target)
    from_root = target.startswith(b"/")
    root = workdir.encode("utf-8").rstrip(b"/")
    if from_root and target != root and not target.startswith(root + b"/"):
        return True
    parts = target[len(root) :].split(b"/") if from_root else change.name.split(b"/")[:-1] + target.split(b"/")
    depth = 0
    for part in parts:
        depth += -1 if part == b".." else 0 if part in (b"", b".") else 1
        if depth < 0:
            return True
    return False


@dataclass(frozen=True)
class _Side:
    change: Change
    old_mode: str
    new_mode: str
    old: str
    new: str


def _sides(change: Change) -> list[_Side]:
    if change.status == "T":
        return [
            _Side(change, change.old_mode, ABSENT, change.old, NO_OBJECT),
            _Side(change, ABSENT, change.new_mode, NO_OBJECT, change.new),
        ]
    return [_Side(change, change.old_mode, change.new_mode, change.old, change.new)]


def _pieces(patch: bytes) -> list[bytes]:
    if not patch:
        return []
    starts = [match.start() for match in _NEXT.finditer(patch)]
    if not starts or starts[0] != 0:
        raise PatchMismatch("a patch begins with its first section")
    return [patch[start:end] for start, end in zip(starts, [*starts[1:], len(patch)], strict=True)]


def _section(piece: bytes, side: _Side) -> Section:
    header, binary = _header(piece)
    expected = {
        (True, False): {b"deleted file mode ": side.old_mode},
        (False, True): {b"new file mode ": side.new_mode},
    }.get((side.new_mode == ABSENT, side.old_mode == ABSENT), {})
    if not expected and side.old_mode != side.new_mode:
        expected = {b"old mode ": side.old_mode, b"new mode ": side.new_mode}
    found = {key: line[len(key) :].decode("ascii") for line in header for key in _MODES if line.startswith(key)}
    if found != expected:
        raise PatchMismatch(
            f"{side.change.path}: modes {_shown(found)} in the patch, {_shown(expected)} in the listing"
        )
    ids = next((match.groups()[:2] for line in header if (match := _INDEX.match(line))), None)
    wanted = (side.old.encode(), side.new.encode())
    if ids != (None if side.old == side.new else wanted):
        raise PatchMismatch(f"{side.change.path}: object ids in the patch are not those of the listing")
    return Section(side.change, piece, binary)


def _header(piece: bytes) -> tuple[list[bytes], bool]:
    lines: list[bytes] = []
    for line in piece[len(_START) :].split(b"\n")[1:]:
        if line.startswith(_BODY):
            return lines, line.startswith((b"GIT binary patch", b"Binary files "))
        lines.append(line)
    return lines, False


def _shown(modes: dict[bytes, str]) -> str:
    return ", ".join(f"{key.decode()}{mode}" for key, mode in modes.items()) or "unchanged"
