"""Units of a study: begun under .stage/, published by one rename, recorded in the ledger; leftovers found and settled.

Rules (30-evidence 1-14, 37-43):
1. `begin` gives a number that nobody else gets and a stage under the unit's own path; attempts also get a `started`
   row, once,
   and the lock of their cell.
2. `publish_unit` publishes, then records `published`, and `accepted` for the first attempt of a cell whose verdict
   is not `not_run`.
   Killed in between, `reconcile` records what is published and whole, and quarantines what is not.
3. One accepted result a cell, one cell a result. Equal bytes from two attempts stay two units: identity is in the
   manifest's ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cells.errors import ConflictError, EvidenceError
from cells.evidence.digest import digest_bytes
from cells.evidence.fs import FileSystem, Kind, create_durable, make_directories, read_plain
from cells.evidence.history import History, Unit
from cells.evidence.ledger import Entry
from cells.evidence.manifest import Statement, build_statement, read_statement, verify_bundle
from cells.evidence.publish import ABANDONED, Already, Published, publish
from cells.evidence.quarantine import finish_quarantines, quarantine
from cells.evidence.removal import remove_tree
from cells.evidence.roots import checked_path
from cells.evidence.sequences import ATTEMPT, REPLAY, SCORE, VERIFICATION, Category, allocate
from cells.evidence.study_store import STAGE, StudyStore
from cells.outcome import Verdict, is_accepted

_UNIT_KINDS = {"attempts": "attempt", "verifications": "verification", "scores": "score", "replays": "replay"}


@dataclass
class Stage:
    """A unit under construction. `path` is where to build it; `unit` is the path under which it will be published."""

    path: Path
    unit: str
    _held: ExitStack = field(default_factory=ExitStack)

    @property
    def name(self) -> str:
        """`a001`"""
        return self.unit.rpartition("/")[2]

    @property
    def abandoned(self) -> bool:
        """Whether an fsync failed on it: it must never be published as it is."""
        return self.path.name.endswith(ABANDONED)

    def release(self) -> None:
        """Let go of the cell's lock; safe twice."""
        self._held.close()


def begin_attempt(store: StudyStore, cell: str, detail: Mapping[str, Any]) -> Stage:
    """A new attempt of a cell: its number, its `started` row, the cell's lock. `Busy` when somebody else has the cell.

    `detail` is recorded in the row (cell_id, order ...). The stage directory itself is made by its builder.
    """
    store.require_writing()
    _refuse_purged(store, f"cells/{cell}")
    held = ExitStack()
    held.enter_context(store.locks.cell(checked_path(cell)))
    try:
        stage = _stage(store, f"cells/{cell}", ATTEMPT)
        record = {**detail, "cell": cell, "attempt": stage.name, "dispatch": stage.unit}
        store.ledger.append("started", stage.unit, None, record)
    except BaseException:
        held.close()
        raise
    stage._held = held
    return stage


def begin_later(store: StudyStore, category: Category, cell: str | None = None) -> Stage:
    """A new verification or score of a cell, or a replay of the study: number and stage; nothing is recorded before
    it is published."""
    store.require_writing()
    if (cell is None) != (category is REPLAY) or category is ATTEMPT:
        raise ValueError(f"{category.folder}: verifications and scores belong to a cell, replays to the study")
    scope = "" if cell is None else f"cells/{checked_path(cell)}"
    _refuse_purged(store, scope or ".")
    return _stage(store, scope, category)


def begin_branch(store: StudyStore, point: str, attempt: str | None = None) -> Stage:
    """The stage of a branch point's bundle, or of one attempt (`<candidate>--s01--a001`) at it. ConflictError when
    it is published."""
    store.require_writing()
    inner = "bundle" if attempt is None else f"attempts/{checked_path(attempt)}"
    unit = f"branches/{checked_path(point)}/{inner}"
    _refuse_purged(store, unit)
    if store.fs.status(store.path / unit) is not None:
        raise ConflictError(f"{unit}: published already; nothing was changed")
    return _at(store, unit)


def new_verification(store: StudyStore, attempt: Unit) -> Stage:
    """The stage of a later verification of an attempt (v002, ...); its source.json must name `source_of(attempt)`."""
    return begin_later(store, VERIFICATION, attempt.cell)


def new_score(store: StudyStore, attempt: Unit) -> Stage:
    """The stage of a later score of an attempt (s002, ...); its source.json must name `source_of(attempt)`."""
    return begin_later(store, SCORE, attempt.cell)


def source_of(unit: Unit, **digests: str | None) -> dict[str, Any]:
    """The content of source.json of a derived observation: the identity of what it was derived from (30-evidence 8,
    42)."""
    return {
        "v": 1,
        "source": {"root": "study", "path": unit.path},
        "bundle_sha256": unit.digest,
        "cell_id": unit.detail.get("cell_id"),
        **digests,
    }


def publish_unit(store: StudyStore, stage: Stage, kind: str, ids: Mapping[str, Any]) -> Unit:
    """Publish a stage and record it; running it again after a crash finishes what is missing.

    `ids` identify the unit and stand in manifest and ledger alike; for an attempt: study, cell, cell_id, attempt,
    verdict, outcome,
    runtime and what tables need. Raises what `publish` raises.
    """
    store.require_writing()
    _check_attempt_ids(stage, kind, ids)
    destination = store.path / stage.unit
    statement = build_statement(stage.path, kind, dict(ids), store.fs)
    _acceptance(store.history(), stage.unit, statement, statement.digest)  # refused before anything is visible
    result: Published | Already = publish(stage.path, destination, statement, store.fs)
    unit = record_unit(store, stage.unit, statement, result.digest)
    stage.release()
    return unit


def record_unit(store: StudyStore, path: str, statement: Statement, digest: str) -> Unit:
    """The ledger rows of a published unit; those that are there already are not written twice."""
    history = store.history()
    known = history.units.get(path)
    if known is not None and known.digest != digest:
        raise ConflictError(f"{path}: the ledger has {known.digest} published there, found {digest}")
    entries: list[Entry] = []
    if known is None:
        detail = {**statement.ids, "kind": statement.kind, "bytes": sum(statement.sizes.values())}
        entries.append(Entry("published", path, digest, detail))
    entries += _acceptance(history, path, statement, digest)
    if entries:
        store.ledger.append_all(entries)
    return store.history().unit(path)


def stages(store: StudyStore) -> list[Stage]:
    """Units left under .stage/ by dead owners (the caller holds the study's lock), by path; abandoned ones included."""
    store.require_writing()
    return [
        Stage(store.path / STAGE / name, name.removesuffix(ABANDONED))
        for name in units_below(store.fs, store.path / STAGE)
    ]


def salvage(store: StudyStore, stage: Stage, digests: Mapping[str, str]) -> Stage:
    """Copy an abandoned stage to a fresh one, file by file, each proved against `digests` (name -> `sha256:<hex>`,
    as in its seals).

    A file without a digest is left behind. EvidenceError when a file with one differs. The abandoned stage goes to
    quarantine.
    """
    fresh = store.path / STAGE / stage.unit
    if not stage.abandoned or store.fs.status(fresh) is not None:
        raise EvidenceError(f"{stage.path}: asked to salvage; expected an abandoned stage and nothing at {fresh}")
    make_directories(store.fs, fresh)
    for name in sorted(digests):
        _copy_proved(store.fs, stage.path / checked_path(name), fresh / name, digests[name])
    quarantine(
        store, f"{STAGE}/{stage.unit}{ABANDONED}", "fsync failed; what its digests prove was copied to a new stage"
    )
    return Stage(fresh, stage.unit)


def discard(store: StudyStore, stage: Stage) -> None:
    """Remove the stage of something that can be made again at no cost (a later verification, a score)."""
    store.require_writing()
    remove_tree(stage.path, store.fs)
    stage.release()


def reconcile(store: StudyStore) -> list[str]:
    """Settle what a killed writer left under the published paths: whole bundles get their rows, others go to
    quarantine.

    Returns what was done, one line each. Stages are left to their owner's kind (`stages`).
    """
    store.require_writing()
    done = finish_quarantines(store)
    known = store.history().units
    for path in units_below(store.fs, store.path):
        unit = known.get(path)
        if unit is not None and (unit.kind != "attempt" or unit.cell in store.history().accepted):
            continue
        problems = verify_bundle(store.path / path, store.fs) if unit is None else []
        if problems:
            kept = quarantine(store, path, f"{problems[0].path}: {problems[0].kind}: {problems[0].detail}")
            done.append(f"{path}: not a valid bundle, moved to {kept}")
            continue
        statement, digest = read_statement(store.path / path, store.fs)
        before = len(store.ledger.rows())
        record_unit(store, path, statement, digest)
        if len(store.ledger.rows()) > before:
            done.append(f"{path}: was published, its ledger rows were missing")
    return done


def unit_kind(path: str) -> str:
    """Which kind of unit lies under a path of the study's layout."""
    parts = path.split("/")
    if parts[0] == "branches":
        return "branch_point" if parts[-1] == "bundle" else "branch_attempt"
    return _UNIT_KINDS[parts[-2]]


def _stage(store: StudyStore, scope: str, category: Category) -> Stage:
    folder = f"{scope}/{category.folder}" if scope else category.folder
    taken = set(store.history().names.get(folder, ()))
    for place in (store.path / folder, store.stage_path(folder)):
        taken.update(name.removesuffix(ABANDONED) for name in _directories(store.fs, place))
    name = allocate(store.path, scope, category, taken, store.fs)
    return _at(store, f"{folder}/{name}")


def _at(store: StudyStore, unit: str) -> Stage:
    path = store.stage_path(unit)
    make_directories(store.fs, path.parent)
    return Stage(path, unit)


def _refuse_purged(store: StudyStore, subject: str) -> None:
    """What was purged is not begun again under the same ledger, nor while its purge is under way."""
    history = store.history()
    if history.purged(subject) or history.is_being_purged(subject):
        raise EvidenceError(
            f"{subject}: was purged from study {store.name}; `assay fork` makes a study that can run it"
        )


def _check_attempt_ids(stage: Stage, kind: str, ids: Mapping[str, Any]) -> None:
    if kind not in ("attempt", "lost_attempt"):
        return
    missing = {"cell", "cell_id", "attempt", "verdict", "runtime"} - ids.keys()
    if missing:
        raise EvidenceError(f"{stage.unit}: an attempt's ids need {', '.join(sorted(missing))}")
    if f"cells/{ids['cell']}/attempts/{ids['attempt']}" != stage.unit:
        raise EvidenceError(f"{stage.unit}: its ids say cell {ids['cell']}, attempt {ids['attempt']}")
    if kind == "lost_attempt" and ids["verdict"] != Verdict.NOT_RUN:
        raise EvidenceError(f"{stage.unit}: a lost attempt has the verdict not_run, not {ids['verdict']}")


def _acceptance(history: History, path: str, statement: Statement, digest: str) -> list[Entry]:
    if statement.kind != "attempt" or not is_accepted(Verdict(statement.ids["verdict"])):
        return []
    cell = str(statement.ids["cell"])
    other = history.accepted.get(cell)
    if other == path:
        return []
    if other is not None and history.unit(other).stands:
        raise ConflictError(f"{path}: cell {cell} already has the accepted attempt {other}; one result a cell")
    twin = history.by_digest.get(digest, path)
    if twin != path:
        raise ConflictError(f"{path}: its bundle is the one of {twin}; one cell a result")
    return [Entry("accepted", path, digest, {"cell": cell, "cell_id": statement.ids["cell_id"]})]


def units_below(fs: FileSystem, root: Path) -> Iterator[str]:
    """Paths (relative to `root`) at which units lie: cells/*/<category>/*, branches/*/bundle, branches/*/attempts/*,
    replays/*."""
    for cell in _directories(fs, root / "cells"):
        for folder in ("attempts", "verifications", "scores"):
            for name in _directories(fs, root / "cells" / cell / folder):
                yield f"cells/{cell}/{folder}/{name}"
    for point in _directories(fs, root / "branches"):
        inner = root / "branches" / point
        for name in _directories(fs, inner):
            if name.removesuffix(ABANDONED) == "bundle":
                yield f"branches/{point}/{name}"
        for name in _directories(fs, inner / "attempts"):
            yield f"branches/{point}/attempts/{name}"
    for name in _directories(fs, root / "replays"):
        yield f"replays/{name}"


def _directories(fs: FileSystem, path: Path) -> list[str]:
    status = fs.status(path)
    if status is None or status.kind is not Kind.DIRECTORY:
        return []
    tree = fs.tree(path)
    try:
        return [entry.name for entry in tree.entries() if entry.kind is Kind.DIRECTORY]
    finally:
        tree.close()


def _copy_proved(fs: FileSystem, source: Path, destination: Path, expected: str) -> None:
    content = read_plain(fs, source)
    if digest_bytes(content) != expected:
        raise EvidenceError(f"{source}: expected {expected}, found {digest_bytes(content)}; not salvaged")
    make_directories(fs, destination.parent)
    create_durable(fs, destination, content)
