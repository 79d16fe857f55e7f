"""Export: a verified study, or one bundle of it, as one file or one bag, if its policy lets it leave.

Rules (30-evidence 44, 46, 47):
1. Packed only from evidence that verifies, now; a problem is named and nothing is written.
2. The policy is asked apart from integrity: retention always, licence, privacy and may_publish when it is to be public.
3. Derived files, locks and stages stay behind; quarantined things go along: failure is evidence.
4. What leaves is recorded: an `exported` row with the digest of the export, the policy's digest, and whether it was
   public.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from cells.errors import ConflictError, EvidenceError
from cells.evidence.design_binding import POLICY, current_plan
from cells.evidence.digest import digest_bytes
from cells.evidence.fs import read_plain
from cells.evidence.history import Unit
from cells.evidence.ledger import LEDGER
from cells.evidence.lifecycle.archive_file import write_archive
from cells.evidence.lifecycle.bag import write_bag
from cells.evidence.lifecycle.export_index import Index, items_below
from cells.evidence.manifest import MANIFEST, build_statement
from cells.evidence.policy import read_policy, require_export
from cells.evidence.publish import publish, publish_file
from cells.evidence.removal import remove_tree
from cells.evidence.study_store import StudyStore
from cells.evidence.verify_study import study_problems, unit_problems

_FOLDERS = ("tasks", "scripts", "inputs", "cells", "branches", "replays", "quarantine", "signatures")


@dataclass(frozen=True)
class Exported:
    """A finished export. `digest` is of the file, or of the bag's manifest."""

    path: Path
    digest: str
    entries: int
    size: int


def export(
    store: StudyStore,
    destination: Path,
    *,
    bag: bool = False,
    public: bool = False,
    unit: Unit | None = None,
    today: date,
) -> Exported:
    """Write an export of the study (or of one of its units) to a new file or bag directory.

    EvidenceError when something does not verify, NotPermitted when the policy refuses, ConflictError when something
    else is there.
    """
    policy = read_policy(store.path, store.fs)
    require_export(policy, public=public, today=today)
    store.ledger.settle()
    problems = study_problems(store.path, store.fs)[0] if unit is None else unit_problems(store.path, unit, store.fs)
    if problems:
        first = problems[0]
        raise EvidenceError(
            f"{store.name}: {len(problems)} problems ({first.path}: {first.kind}: {first.detail}); "
            "only what verifies is exported"
        )
    index = study_index(store) if unit is None else bundle_index(store, unit)
    source = store.path if unit is None else store.path / unit.path
    written = _bag(destination, index, source, store) if bag else _file(destination, index, source, store)
    subject = "." if unit is None else unit.path
    facts = {"public": public, "bag": bag, "policy": index.facts["policy"], "at_rows": index.facts["rows"]}
    store.ledger.append("exported", subject, written.digest, facts)
    return written


def study_index(store: StudyStore) -> Index:
    """What an export of the study holds now."""
    plans = [row.subject for row in store.ledger.rows() if row.kind in ("planned", "revised")]
    documents = ("study.json", "study.toml", POLICY, LEDGER, *plans)
    return Index(
        "study", _facts(store), tuple(items_below(store.path, tuple(sorted({*documents, *_FOLDERS})), store.fs))
    )


def bundle_index(store: StudyStore, unit: Unit) -> Index:
    """What an export of one bundle holds."""
    names = (MANIFEST, *sorted({path.name for path in (store.path / unit.path).iterdir()} - {MANIFEST}))
    facts = {**_facts(store), "bundle_sha256": unit.digest, "path": unit.path}
    return Index("bundle", facts, tuple(items_below(store.path / unit.path, names, store.fs)))


def _facts(store: StudyStore) -> dict[str, object]:
    rows = store.ledger.rows()
    return {
        "name": store.name,
        "study_id": store.id,
        "root_id": store.root.id,
        "head": store.ledger.head,
        "rows": len(rows),
        "plan": current_plan(rows).digest,
        "policy": digest_bytes(read_plain(store.fs, store.path / POLICY)),
    }


def _file(destination: Path, index: Index, source: Path, store: StudyStore) -> Exported:
    stage = destination.with_name(f".{destination.name}.part")
    stage.unlink(missing_ok=True)
    write_archive(stage, index, source, store.fs)
    try:
        result = publish_file(stage, destination, store.fs)
    except ConflictError:
        stage.unlink(missing_ok=True)
        raise
    return Exported(destination, result.digest, len(index.items), destination.stat().st_size)


def _bag(destination: Path, index: Index, source: Path, store: StudyStore) -> Exported:
    stage = destination.with_name(f".{destination.name}.part")
    if stage.exists():
        remove_tree(stage, store.fs)
    try:
        write_bag(stage, index, source, store.fs)
        result = publish(stage, destination, build_statement(stage, "export", index.facts, store.fs), store.fs)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    return Exported(destination, result.digest, len(index.items), sum(item.size for item in index.items))
