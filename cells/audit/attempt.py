"""The audit of one attempt, and of all attempts of a study."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cells.artifacts.check import check_unit
from cells.artifacts.members import member_names
from cells.artifacts.model import Scope
from cells.artifacts.seals import BOUNDARIES
from cells.audit.decisions import audit_decisions
from cells.audit.findings import AttemptAudit, Violation
from cells.audit.records import read_live_record
from cells.audit.seals import audit_post, audit_seals
from cells.errors import EvidenceError

_PLACES = {
    "cells/*/attempts/a*": Scope.ATTEMPT,
    "branches/*/attempts/*": Scope.BRANCH,
    "replays/r*": Scope.REPLAY,
}
_BOUNDARY_KINDS = ("undeclared", "assistant_only", "not_a_file")


def audit_study(study: Path) -> Iterator[AttemptAudit]:
    """Every attempt of a study, branch attempts and replays included, in the order of their paths."""
    for pattern, scope in _PLACES.items():
        for root in sorted(study.glob(pattern)):
            if (root / "start").is_dir():
                yield audit_attempt(root, root.relative_to(study).as_posix(), scope)


def audit_attempt(root: Path, path: str, scope: Scope = Scope.ATTEMPT) -> AttemptAudit:
    """Everything that can be said about one attempt from what lies in it."""
    try:
        names = member_names(root)
    except EvidenceError as error:
        violation = Violation("not_a_file", ".", str(error))
        return AttemptAudit(path, None, 0, 0, sealed=False, violations=(violation,))
    seal, violations = audit_seals(root)
    violations += [
        Violation(one.kind, one.path, one.detail) for one in check_unit(root, scope) if one.kind in _BOUNDARY_KINDS
    ]
    if seal is None:
        return AttemptAudit(path, None, 0, 0, sealed=False, violations=tuple(violations))
    violations += audit_post(root)
    record, broken = read_live_record(root)
    violations += broken
    boundary = str(seal.get("boundary"))
    if record is None:
        return AttemptAudit(path, boundary, 0, 0, violations=tuple(violations))
    decisions = audit_decisions(root, record)
    violations += [*record.violations(root), *decisions.violations, *_enforcement(boundary, decisions.decisions)]
    post = sum(name.startswith("post/") for name in names)
    return AttemptAudit(
        path,
        boundary,
        decisions.decisions,
        decisions.recomputed,
        decisions.actions,
        post_files=post,
        violations=tuple(violations),
    )


def _enforcement(boundary: str, decisions: int) -> Iterator[Violation]:
    if boundary not in BOUNDARIES:
        yield Violation("not_enforced", "start/SEAL.json", f"boundary {boundary!r} is no mechanism that there is")
    elif boundary == "none" and decisions:
        detail = f"{decisions} live decisions were made with nothing that held their reader"
        yield Violation("not_enforced", "start/SEAL.json", detail)
