"""A study on disk: made once, opened only when it is what its ledger binds, written by one process at a time.

    <studies>/root.json
    <studies>/<study>/  study.json plan.lock.json [plan.lock.r002.json ...] policy.json     frozen design
                        tasks/ scripts/ inputs/                                             frozen folders
                        ledger.jsonl                                                        authority
                        catalog.json latest.json tables/ report.html                        derived
                        cells/<cell>/{attempts/a001,verifications/v002,scores/s002}         published units
                        branches/ replays/                                                  published units
                        quarantine/ .stage/ locks/

Rules (30-evidence 3, 7, 9, 10, 13, 24, 33, 34):
1. What lies under cells/, branches/ and replays/ is complete by construction; what is under construction lies in
   .stage/ under the same path.
2. All writers of units hold the study's lock; a second one waits or is refused, by name of the first.
3. Nothing published is changed or removed here; `purge` alone removes, and says so in the ledger.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cells.errors import ConflictError, EvidenceError, UsageError
from cells.evidence.design_binding import (
    PLAN,
    POLICY,
    STUDY,
    current_plan,
    design_problems,
    frozen_digests,
    planned_detail,
    root_of,
)
from cells.evidence.digest import digest_bytes
from cells.evidence.fs import FileSystem, create_durable, make_directories, read_plain
from cells.evidence.fs_real import REAL
from cells.evidence.history import History, Unit
from cells.evidence.ledger import LEDGER, Clock, Ledger, Row, study_id, utc_now
from cells.evidence.locks import NoLocks, StudyLocks, refuse_network
from cells.evidence.manifest import MANIFEST
from cells.evidence.publish import publish_file
from cells.evidence.removal import remove_tree
from cells.evidence.roots import StudiesRoot

STAGE = ".stage"
_FOLDERS = ("cells", "quarantine", "locks", STAGE)


class StudyStore:
    """One study directory, opened. Reading needs no lock; writing units needs `writing()`."""

    def __init__(
        self,
        root: StudiesRoot,
        name: str,
        *,
        fs: FileSystem = REAL,
        locks: StudyLocks | NoLocks | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.root, self.name, self.fs = root, name, fs
        self.path = root.study_path(name)
        self.locks = locks or StudyLocks(self.path)
        self.ledger = Ledger(self.path, lock=self.locks.ledger, fs=fs, clock=clock)
        self._history, self._read = History(), 0
        self._writing = False
        self._mutex = threading.RLock()

    @classmethod
    def create(
        cls,
        root: StudiesRoot,
        name: str,
        documents: Mapping[str, bytes],
        *,
        populate: Callable[[Path], None] | None = None,
        lineage: dict[str, Any] | None = None,
    ) -> StudyStore:
        """A new study from its frozen documents (study.json, plan.lock.json, policy.json; each with `v`).

        `populate` is given the unpublished directory to freeze tasks and scripts into. Everything appears by one
        rename; a study
        of that name is ConflictError, a fault leaves nothing behind.
        """
        missing = {STUDY, PLAN, POLICY} - documents.keys()
        if missing:
            raise UsageError(f"a study needs {', '.join(sorted(missing))}")
        destination = root.study_path(name)
        refuse_network(root.path)
        if REAL.status(destination) is not None:
            raise ConflictError(f"{destination}: asked for a new study, found something there; nothing was changed")
        with root.lock(f"create-{name}").held(60.0):
            draft = root.path / f".draft-{name}"
            remove_tree(draft)  # what a killed creation left
            draft.mkdir(mode=0o750)
            try:
                _fill(draft, documents, populate)
                detail = planned_detail(root, draft, lineage)
                Ledger.open(draft).append("planned", PLAN, digest_bytes(documents[PLAN]), detail)
                REAL.sync_directory(draft)
                REAL.move_new(draft, destination)
            except FileExistsError as error:
                raise ConflictError(f"{destination}: another process made this study in between") from error
            finally:
                remove_tree(draft)
        REAL.sync_directory(root.path)
        return cls.open(root, name)

    @classmethod
    def open(cls, root: StudiesRoot, name: str, *, frozen: bool = False, fs: FileSystem = REAL) -> StudyStore:
        """An existing study. EvidenceError, naming what, for another version, changed frozen files, or a study of
        another root.

        `frozen` digests tasks/, scripts/ and inputs/ too: before anything runs.
        """
        path = root.study_path(name)
        if fs.status(path / LEDGER) is None:
            raise EvidenceError(f"{path}: not a study (it has no {LEDGER})")
        store = cls(root, name, fs=fs)
        rows = store.ledger.rows()
        problems = design_problems(path, rows, frozen=frozen, fs=fs)
        if problems:
            listed = "; ".join(f"{problem.path}: {problem.detail}" for problem in problems[:5])
            raise EvidenceError(f"study {name} in {root.path}: {listed}. Nothing was changed")
        bound = root_of(rows)
        if bound is not None and bound["id"] != root.id:
            raise EvidenceError(
                f"study {name} belongs to studies root {bound['id']}, found under {root.id}: "
                "bring it here with `assay export` and `assay restore`"
            )
        return store

    @property
    def id(self) -> str:
        """The study's full id: the digest of its first ledger row, which binds root, plan and moment."""
        return str(study_id(self.ledger.rows(), self.ledger.head))

    @contextmanager
    def writing(self, timeout_s: float = 0.0) -> Iterator[None]:
        """Be the writer of this study; `Busy` names who is. EnvironmentFault on a network file system."""
        with self.locks.study(timeout_s):
            self._writing = True
            try:
                self.ledger.settle()
                yield
            finally:
                self._writing = False

    def require_writing(self) -> None:
        """RuntimeError (our bug) when the caller does not hold the lock."""
        if not self._writing:
            raise RuntimeError(f"study {self.name}: asked to write units without holding its lock (StudyStore.writing)")

    def history(self) -> History:
        """Everything the ledger says, up to now."""
        with self._mutex:
            rows = self.ledger.rows()
            for row in rows[self._read :]:
                self._history.apply(row)
            self._read = len(rows)
        return self._history

    def plan(self) -> tuple[str, bytes]:
        """Name and bytes of the newest plan, as bound by the ledger."""
        row = current_plan(self.ledger.rows())
        return row.subject, read_plain(self.fs, self.path / row.subject)

    def revise(self, name: str, content: bytes, detail: Mapping[str, Any]) -> Row:
        """Add a revision of the plan: a new file, then its `revised` row. A killed revision is finished by the same
        call."""
        self.require_writing()
        digest, stage = digest_bytes(content), self.path / STAGE / name
        make_directories(self.fs, stage.parent)
        if self.fs.status(stage) is not None:
            self.fs.unlink(stage)  # cut off before it was published: it was nothing yet
        create_durable(self.fs, stage, content)
        publish_file(stage, self.path / name, self.fs)
        bound = {**detail, "frozen": frozen_digests(self.path, self.fs)}
        return self.ledger.append_once("revised", name, digest, bound)

    def accepted(self) -> dict[str, Unit]:
        """Cell directory -> its accepted attempt, each checked to stand where the ledger says, with the manifest it
        says.

        This is the scan of a resumed run. EvidenceError names accepted attempts that are gone or altered.
        """
        found = self.history().accepted_units()
        wrong = [unit.path for unit in found.values() if not self._stands(unit)]
        if wrong:
            raise EvidenceError(
                f"study {self.name}: {len(wrong)} accepted attempts are gone or altered ({', '.join(wrong[:5])}); "
                "`assay verify` says more. Nothing was changed"
            )
        return found

    def bundle(self, unit: Unit) -> Path:
        """Where a unit lies."""
        return self.path / unit.path

    def stage_path(self, unit: str) -> Path:
        """Where a unit of this path is built."""
        return self.path / STAGE / unit

    def check_runtime(self, fingerprint: str, *, accept_change: bool) -> list[str]:
        """Fingerprints of the machines of this study's attempts other than this one; EvidenceError unless a change
        is accepted (25-formats). `host` in an attempt's ids is its runtime without the task's image."""
        stated = (unit.detail.get("host") or unit.detail.get("runtime") for unit in self.history().units.values())
        seen = {str(fingerprint) for fingerprint in stated if fingerprint}
        others = sorted(seen - {fingerprint})
        if others and not accept_change:
            raise EvidenceError(
                f"study {self.name}: its attempts ran on {', '.join(others)}, this machine is {fingerprint}; "
                "mixed runtimes need --accept-runtime-change, and the report then says so"
            )
        return others

    def _stands(self, unit: Unit) -> bool:
        path = self.path / unit.path / MANIFEST
        try:
            return digest_bytes(read_plain(self.fs, path)) == unit.digest
        except (EvidenceError, OSError):
            return False


def _fill(draft: Path, documents: Mapping[str, bytes], populate: Callable[[Path], None] | None) -> None:
    for folder in _FOLDERS:
        (draft / folder).mkdir(mode=0o750)
    for name, content in documents.items():
        create_durable(REAL, draft / name, content)
    if populate is not None:
        populate(draft)
    for directory, folders, _ in os.walk(draft, topdown=False, followlinks=False):
        for folder in folders:
            if not os.path.islink(os.path.join(directory, folder)):
                REAL.sync_directory(Path(directory) / folder)
