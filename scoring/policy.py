"""What of a candidate's patch is verified: hunks that the policy drops, and patches that it rejects. Pure.

Rules:
1. A path that the gold patch touches is never dropped.
2. Dropped and listed, not rejected: runner configuration and test machinery, paths that the sealed tests overwrite or
   remove, files that hold expected tests, new files that the base ignores, binary content.
3. What cannot apply without a dropped section is dropped with it.
4. Rejected: a cap passed, a link out of the work directory, a mode or a path that no honest tree has.
5. A patch of which everything was dropped is `present`: the verifier decides about the base as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cells.incell.trusted.machinery import machinery_reason, shadow_reason
from cells.outcome import PatchState
from scoring.collected import Change, Collected
from scoring.patch import Section, is_outside

HIDDEN_TEST = "hidden_test"
EXPECTED_TEST = "expected_test_file"
IGNORED = "ignored"
BINARY = "binary"
DEPENDS = "needs_a_dropped_change"
_MODES = {"000000", "100644", "100755", "120000"}


@dataclass(frozen=True)
class PatchPolicy:
    """What the policy knows of the task. Sizes in bytes."""

    runner: str
    workdir: str
    gold: frozenset[bytes] = frozenset()
    """Paths that the gold patch touches."""
    hidden: frozenset[bytes] = frozenset()
    """Paths that the sealed tests overwrite or remove."""
    expected_modules: frozenset[str] = frozenset()
    """Dotted module names of the files that hold expected tests."""
    import_roots: tuple[bytes, ...] = (b"",)
    max_bytes: int = 16 << 20
    max_files: int = 2000


@dataclass(frozen=True)
class Dropped:
    """A section that is not verified, and why."""

    section: Section
    reason: str


@dataclass(frozen=True)
class Decision:
    """What the policy made of a patch."""

    state: PatchState
    kept: tuple[Section, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    rejections: tuple[str, ...] = field(default=())


def decide(collected: Collected, sections: Sequence[Section], policy: PatchPolicy) -> Decision:
    """Filter and judge the sections of an unfiltered patch."""
    if collected.over_cap == "git_failed":
        return Decision(PatchState.UNAPPLIABLE)
    if collected.over_cap is not None:
        return Decision(PatchState.REJECTED, rejections=(f"cap passed: {collected.over_cap}",))
    if collected.is_empty:
        return Decision(PatchState.EMPTY)
    if not collected.is_exact:
        return Decision(PatchState.UNAPPLIABLE, kept=tuple(sections))
    kept, dropped = _filter(sections, policy)
    rejections = tuple(_rejections(kept, policy))
    return Decision(PatchState.REJECTED if rejections else PatchState.PRESENT, kept, dropped, rejections)


def drop_reason(section: Section, policy: PatchPolicy) -> str | None:
    """Why this section is dropped, None when it is kept."""
    path, change = section.path, section.change
    if path in policy.gold:
        return None
    if path in policy.hidden:
        return HIDDEN_TEST
    if reason := machinery_reason(path, policy.runner):
        return reason
    if policy.runner == "pytest" and holds_expected(path, policy.expected_modules):
        return EXPECTED_TEST
    if change.status == "A":
        if change.ignored:
            return IGNORED
        if reason := shadow_reason(path, policy.import_roots):
            return reason
    return BINARY if section.binary else None


def holds_expected(path: bytes, modules: Iterable[str]) -> bool:
    """Whether a Python file is the module of an expected test, from whatever directory its name counts."""
    if not path.endswith(b".py"):
        return False
    dotted = "." + path[:-3].decode("utf-8", "replace").replace("/", ".")
    return any(dotted.endswith("." + module) for module in modules)


def _filter(sections: Sequence[Section], policy: PatchPolicy) -> tuple[tuple[Section, ...], tuple[Dropped, ...]]:
    reasons = {section.path: reason for section in sections if (reason := drop_reason(section, policy))}
    blocked = {section.path for section in sections if section.path in reasons and section.change.status in "DT"}
    for section in sections:
        if section.path not in reasons and section.change.status in "AT" and _blocked(section.path, blocked):
            reasons[section.path] = DEPENDS
    kept = tuple(section for section in sections if section.path not in reasons)
    dropped = tuple(Dropped(section, reasons[section.path]) for section in sections if section.path in reasons)
    return kept, dropped


def _blocked(path: bytes, still_there: set[bytes]) -> bool:
    """Whether something whose removal was dropped stands where this path must go: above it, or below it."""
    parts = path.split(b"/")
    above = any(b"/".join(parts[:length]) in still_there for length in range(1, len(parts)))
    return above or any(other.startswith(path + b"/") for other in still_there)


def _rejections(kept: Sequence[Section], policy: PatchPolicy) -> Iterable[str]:
    size = sum(len(section.content) for section in kept)
    if size > policy.max_bytes:
        yield f"patch of {size} bytes, allowed {policy.max_bytes}"
    files = len({section.path for section in kept})
    if files > policy.max_files:
        yield f"patch of {files} files, allowed {policy.max_files}"
    seen: dict[str, None] = dict.fromkeys(reason for section in kept for reason in _odd(section.change, policy))
    yield from seen


def _odd(change: Change, policy: PatchPolicy) -> Iterable[str]:
    parts = change.name.split(b"/")
    if any(part in (b"", b".", b"..") for part in parts):
        yield f"path that leaves the work directory: {change.path}"
    if any(part.lower() == b".git" for part in parts):
        yield f"path inside a .git: {change.path}"
    if not {change.old_mode, change.new_mode} <= _MODES:
        yield f"special mode {change.new_mode}: {change.path}"
    if is_outside(change, policy.workdir):
        yield f"link out of the work directory: {change.path} -> {change.target}"
