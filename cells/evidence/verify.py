"""`assay verify`: integrity, apart from authenticity, apart from permission, for a bundle, a study, a studies root
or an export.

Rules (30-evidence 44, 47, 48):
1. `ok` is integrity, plus what authenticity was asked for (a head that must be known, a key that must have signed).
2. Integrity is not authenticity: who can rewrite everything can make a consistent study; a head that was printed
   earlier, or a
   signature, shows it to whoever holds them.
3. A valid manifest is not a permission: policy.json is reported beside it and decides nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.design_binding import root_of
from cells.evidence.fs import FileSystem, Kind
from cells.evidence.fs_real import REAL
from cells.evidence.history import History
from cells.evidence.ledger import LEDGER, Chain
from cells.evidence.manifest import MANIFEST
from cells.evidence.policy import permission_of
from cells.evidence.problem import Problem
from cells.evidence.roots import ROOT_FILE, StudiesRoot
from cells.evidence.verify_study import bundle_problems, read_study, study_problems, unit_problems


@dataclass(frozen=True)
class Expected:
    """What the asker knows from elsewhere: a head printed in a report, a public key that must have signed."""

    head: str | None = None
    public_key: Path | None = None


@dataclass
class VerifyReport:
    """What was checked and found."""

    path: str
    kind: str
    checked: int = 0
    problems: list[Problem] = field(default_factory=list)
    authenticity: dict[str, Any] = field(default_factory=dict)
    permission: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The document of `assay verify --json` (20-interface), with authenticity and permission beside it."""
        return {
            "ok": self.ok,
            "checked": self.checked,
            "problems": [problem.as_json() for problem in self.problems],
            "path": self.path,
            "kind": self.kind,
            "authenticity": self.authenticity,
            "permission": self.permission,
        }


def verify_path(path: Path, expected: Expected | None = None, fs: FileSystem = REAL) -> VerifyReport:
    """Check whatever lies at a path. Changes nothing."""
    asked = expected or Expected()
    status = fs.status(path)
    if status is None:
        found = Problem("", "not_a_bundle", "nothing is there")
        return VerifyReport(str(path), "nothing", problems=[found])
    if status.kind is Kind.FILE:
        return _archive(path)
    if status.kind is not Kind.DIRECTORY:
        return VerifyReport(str(path), str(status.kind), problems=[Problem("", status.kind, "a link or special file")])
    if fs.status(path / "bagit.txt") is not None:
        return _bag(path)
    if fs.status(path / MANIFEST) is not None:
        return _bundle(path, asked, fs)
    if fs.status(path / LEDGER) is not None:
        return _study(path, asked, fs)
    if fs.status(path / ROOT_FILE) is not None:
        return _root(path, asked, fs)
    what = (
        f"has none of {MANIFEST}, {LEDGER}, {ROOT_FILE}, bagit.txt: not a bundle, a study, a studies root or an export"
    )
    return VerifyReport(str(path), "directory", problems=[Problem("", "not_a_bundle", what)])


def _bundle(path: Path, asked: Expected, fs: FileSystem) -> VerifyReport:
    report = VerifyReport(str(path), "bundle", checked=1)
    study = _study_above(path, fs)
    if study is None:
        report.problems = bundle_problems(path, fs)
        report.authenticity = {
            "ledger": None,
            "note": "no ledger above it: whoever rewrote all of it would not be seen",
        }
        return report
    chain = read_study(study, fs)
    relative = str(path.absolute().relative_to(study))
    unit = History.of(chain.rows).units.get(relative)
    if unit is None:
        report.problems = [*bundle_problems(path, fs), Problem("", "unledgered", f"no row in {study / LEDGER}")]
    else:
        inner = len(relative) + 1
        report.problems = [
            Problem(problem.path[inner:], problem.kind, problem.detail) for problem in unit_problems(study, unit, fs)
        ]
    _authenticate(report, study, chain, asked, fs)
    report.permission = permission_of(study, chain.rows, fs)
    return report


def _study(path: Path, asked: Expected, fs: FileSystem) -> VerifyReport:
    report = VerifyReport(str(path), "study")
    try:
        report.problems, report.checked = study_problems(path, fs)
        chain = read_study(path, fs)
    except (EvidenceError, OSError) as error:
        report.problems.append(Problem("", "unreadable", str(error)))
        return report
    _authenticate(report, path, chain, asked, fs)
    report.permission = permission_of(path, chain.rows, fs)
    return report


def _root(path: Path, asked: Expected, fs: FileSystem) -> VerifyReport:
    report = VerifyReport(str(path), "studies-root", authenticity={"studies": {}}, permission={"studies": {}})
    try:
        root = StudiesRoot.open(path)
    except EvidenceError as error:
        report.problems.append(Problem(ROOT_FILE, "root", str(error)))
        return report
    for study in root.studies():
        bound = root_of(read_study(study, fs).rows)
        if bound is not None and (bound["id"] != root.id or bound["digest"] not in (None, root.digest)):
            found = f"{study.name} belongs to root {bound['id']} {bound['digest']}, found {root.id} {root.digest}"
            report.problems.append(Problem(ROOT_FILE, "root", found))
        inner = _study(study, asked if asked.public_key else Expected(), fs)
        report.checked += inner.checked
        report.problems += [problem.below(study.name) for problem in inner.problems]
        report.authenticity["studies"][study.name] = inner.authenticity
        report.permission["studies"][study.name] = inner.permission
    if asked.head is not None and not any(
        one.get("expected_head") for one in (_heads(study, asked.head, fs) for study in root.studies())
    ):
        report.problems.append(Problem("", "head", f"no study of this root ever had the head {asked.head}"))
    return report


def _heads(study: Path, head: str, fs: FileSystem) -> dict[str, bool]:
    return {"expected_head": _knows(read_study(study, fs), head)}


def _authenticate(report: VerifyReport, study: Path, chain: Chain, asked: Expected, fs: FileSystem) -> None:
    from cells.evidence.signature import (
        check_signatures,
    )  # the optional extra is imported only when there is a signature

    signatures, problems = check_signatures(study, chain, asked.public_key, fs)
    report.problems += problems
    known = None if asked.head is None else _knows(chain, asked.head)
    if known is False:
        report.problems.append(
            Problem(LEDGER, "head", f"the head {asked.head} is not in this ledger: rows were lost or rewritten since")
        )
    report.authenticity = {"head": chain.head, "rows": chain.count, "expected_head": known, "signatures": signatures}


def _knows(chain: Chain, head: str) -> bool:
    return head == chain.head or any(row.prev == head for row in chain.rows)


def _study_above(bundle: Path, fs: FileSystem) -> Path | None:
    for parent in list(bundle.absolute().parents)[:5]:
        if fs.status(parent / LEDGER) is not None:
            return parent
    return None


def _archive(path: Path) -> VerifyReport:
    from cells.evidence.lifecycle.archive_file import verify_archive

    problems, checked, inner = verify_archive(path)
    return VerifyReport(
        str(path), "archive", checked, problems, inner.get("authenticity", {}), inner.get("permission", {})
    )


def _bag(path: Path) -> VerifyReport:
    from cells.evidence.lifecycle.bag import verify_bag

    problems, checked = verify_bag(path)
    return VerifyReport(str(path), "bag", checked, problems)
