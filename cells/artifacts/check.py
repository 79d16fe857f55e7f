"""A directory against the contract: files without a row, required files that are missing, assistant-only files.

Rules:
1. An attempt is checked file by file; a study by its own files and each attempt, bundle and replay in it; a studies
   root by its studies.
2. What a unit must have depends on how far it came: post-run files are required once there is a `post/`.
3. Any other directory is taken for a run of a foreign harness: only assistant-only files are violations there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cells.artifacts.members import member_names
from cells.artifacts.model import Row, Scope, UndeclaredArtifact
from cells.artifacts.table import CONTRACT, HARNESS_FOLDER, Contract
from cells.errors import BoundaryViolation, EvidenceError

_UNITS = {
    "cells/*/attempts/a*": Scope.ATTEMPT,
    "cells/*/verifications/v*": Scope.VERIFICATION,
    "cells/*/scores/s*": Scope.RESCORE,
    "replays/r*": Scope.REPLAY,
    "branches/*/bundle": Scope.BRANCH_POINT,
    "branches/*/attempts/*": Scope.BRANCH,
}


@dataclass(frozen=True)
class Problem:
    """One difference between a directory and the contract. `kind`: undeclared, missing, assistant_only, not_a_file."""

    path: str
    kind: str
    detail: str


def check_path(path: Path, contract: Contract = CONTRACT) -> list[Problem]:
    """All problems of a directory; `EvidenceError` when there is no directory."""
    if not path.is_dir() or path.is_symlink():
        raise EvidenceError(f"{path}: asked to check a directory against the contract; there is none")
    if (path / "root.json").is_file():
        return _check_root(path, contract)
    if (path / "study.json").is_file():
        return _check_study(path, contract)
    if (path / "start").is_dir():
        return check_unit(path, Scope.ATTEMPT, contract)
    return _check_foreign(path, contract)


def check_unit(root: Path, scope: Scope, contract: Contract = CONTRACT) -> list[Problem]:
    """The problems of one attempt, bundle or replay."""
    try:
        names = member_names(root)
    except EvidenceError as error:
        return [Problem(".", "not_a_file", str(error))]
    problems = [problem for name in names if (problem := _problem_of(name, scope, contract))]
    return problems + [_missing(row) for row in contract.required(scope) if _is_missing(row, names)]


def assistant_only(names: list[str], contract: Contract = CONTRACT) -> list[Problem]:
    """Files of coding sessions among the files that a harness left (names relative to its folder)."""
    return [
        Problem(name, "assistant_only", _assistant_words(row))
        for name in names
        if (row := contract.harness_row(name)) is not None and row.assistant_only
    ]


def _problem_of(name: str, scope: Scope, contract: Contract) -> Problem | None:
    try:
        row = contract.row_for(name, scope)
    except UndeclaredArtifact as error:
        return Problem(name, "undeclared", str(error))
    except BoundaryViolation as error:
        return Problem(name, "not_a_file", str(error))
    if row.assistant_only and name.startswith(HARNESS_FOLDER):
        return Problem(name, "assistant_only", _assistant_words(row))
    return None


def _check_root(root: Path, contract: Contract) -> list[Problem]:
    """A studies root: every study in it."""
    return [
        Problem(f"{study.name}/{one.path}", one.kind, one.detail)
        for study in sorted(root.iterdir())
        if (study / "study.json").is_file()
        for one in _check_study(study, contract)
    ]


def _check_study(root: Path, contract: Contract) -> list[Problem]:
    problems = []
    for pattern, scope in _UNITS.items():
        for unit in sorted(root.glob(pattern)):
            where = unit.relative_to(root).as_posix()
            problems += [
                Problem(f"{where}/{one.path}", one.kind, one.detail) for one in check_unit(unit, scope, contract)
            ]
    own = [name for name in member_names(root) if not name.startswith((".stage/", "locks/", "quarantine/"))]
    problems += [problem for name in own if (problem := _problem_of(name, Scope.STUDY, contract))]
    return problems + [_missing(row) for row in contract.required(Scope.STUDY) if _is_missing(row, own)]


def _check_foreign(root: Path, contract: Contract) -> list[Problem]:
    try:
        return assistant_only(member_names(root), contract)
    except EvidenceError as error:
        return [Problem(".", "not_a_file", str(error))]


def _is_missing(row: Row, names: list[str]) -> bool:
    folder = row.matcher.tail.split("/")[0]
    reached = folder != "post" or any(name.startswith("post/") for name in names)
    return reached and not any(row.matcher.matches(name) for name in names)


def _missing(row: Row) -> Problem:
    return Problem(
        row.pattern, "missing", f"required by the contract, written by {row.writer}, ready {row.ready_words()}"
    )


def _assistant_words(row: Row) -> str:
    return f"{row.pattern} belongs to coding sessions (written by {row.writer}); in a measurement it is a violation"
