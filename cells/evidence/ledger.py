"""The ledger: the append-only, hash-chained authority on what happened to a study's evidence.

Rules (30-evidence 27, 28, 48; 25-formats "ledger.jsonl"):
1. A row is one line of canonical JSON; `prev` is the sha256 of the previous line's bytes without its newline, `seq`
   counts from 0.
2. `sum` is the sha256 of the row's own bytes with an empty `sum`: also the last row, which no later row binds,
   guards itself.
3. One writer at a time, one write call and one fsync an append; rows are never changed. Order is `seq`; `at` is for
   people.
4. A tail that a crash tore is copied to quarantine, then cut, and a `recovered` row says so. Only a torn tail is
   ever cut:
   a whole line that is wrong is altered evidence, and everything stops.
5. Losing whole rows at the end is seen only by who knows a later head: reports, `latest.json`, signatures, bundles
   without a row.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.fs import (
    FileSystem,
    create_durable,
    make_directories,
    read_handle,
    read_plain,
    replace_derived,
    write_handle,
)
from cells.evidence.fs_real import REAL
from cells.evidence.locks import StudyLocks
from cells.evidence.problem import Problem
from cells.evidence.upgrades import UPGRADES

LEDGER = "ledger.jsonl"
LATEST = "latest.json"
VERSION = 1
KINDS = frozenset(
    {"planned", "revised", "started", "published", "accepted", "consumed", "superseded", "withdrawn", "quarantined"}
    | {"archived", "unarchived", "exported", "restored", "labelled", "purging", "purged", "unblinded", "recovered"}
)
_FIELDS = frozenset(["v", "seq", "kind", "subject", "digest", "at", "who", "detail", "prev", "sum"])
_SUM = b'"sum":"'
_SUM_LENGTH = len("sha256:") + 64


Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The wall clock of this machine; for people, never for order."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `subject` is a path relative to the study or an id; `digest` binds bytes; `prev` is None in the first
    row."""

    v: int
    seq: int
    kind: str
    subject: str
    digest: str | None
    at: str
    who: str
    detail: dict[str, Any]
    prev: str | None
    sum: str


@dataclass(frozen=True)
class Entry:
    """What a caller asks to be recorded."""

    kind: str
    subject: str
    digest: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chain:
    """A ledger's bytes, read: the rows that hold, and what is wrong with the rest."""

    rows: tuple[Row, ...]
    head: str | None
    """sha256 of the last good line, None for an empty ledger"""
    size: int
    """bytes of the good rows"""
    count: int
    """number of good rows, those before a partial read included"""
    version: int | None = None
    """the one version that its rows have, None for an empty ledger"""
    torn: bytes = b""
    """a tail that a crash can have left"""
    problem: Problem | None = None


class Ledger:
    """The ledger of one study directory."""

    def __init__(
        self,
        study: Path,
        *,
        lock: Callable[[], AbstractContextManager[None]],
        fs: FileSystem = REAL,
        clock: Clock = utc_now,
        who: str = "",
    ) -> None:
        self._study, self._lock, self._fs, self._clock = study, lock, fs, clock
        self._who = who or f"uid {os.getuid()} pid {os.getpid()}"
        self._known = Chain((), None, 0, 0)
        self._rows: list[Row] = []
        self._mutex = threading.RLock()
        """Threads of this process share one look at the file; other processes are kept out by `lock`."""

    @classmethod
    def open(cls, study: Path, *, fs: FileSystem = REAL, who: str = "") -> Ledger:
        """The ledger of a study directory on this machine, locked by `locks/ledger.lock`."""
        return cls(study, lock=StudyLocks(study).ledger, fs=fs, who=who)

    @property
    def path(self) -> Path:
        return self._study / LEDGER

    @property
    def head(self) -> str | None:
        """sha256 of the last row's bytes: what a report prints, what a signature signs."""
        with self._mutex:
            self._refresh()
            return self._known.head

    def rows(self) -> list[Row]:
        """All good rows; a torn tail is not among them. EvidenceError when a whole row is wrong."""
        with self._mutex:
            self._refresh()
            return list(self._rows)

    def append(self, kind: str, subject: str, digest: str | None = None, detail: dict[str, Any] | None = None) -> Row:
        """Append one row, durable when this returns."""
        return self.append_all([Entry(kind, subject, digest, detail or {})])[0]

    def append_all(self, entries: Iterable[Entry]) -> list[Row]:
        """Append rows in one write and one fsync, durable when this returns; each stands alone if a crash keeps only
        the first."""
        with self._mutex, self._lock():
            self._refresh()
            if self._known.torn:
                self._recover()
            return self._write(list(entries))

    def settle(self) -> None:
        """Recover a torn tail now, if there is one: before a command that proves the whole study."""
        with self._mutex, self._lock():
            self._refresh()
            if self._known.torn:
                self._recover()

    def append_once(self, kind: str, subject: str, digest: str | None, detail: dict[str, Any] | None = None) -> Row:
        """Append a row unless there is one of this kind, subject and digest: what a command that is run again does."""
        with self._mutex, self._lock():
            self._refresh()
            if self._known.torn:
                self._recover()
            for row in reversed(self._rows):
                if (row.kind, row.subject, row.digest) == (kind, subject, digest):
                    return row
            return self._write([Entry(kind, subject, digest, detail or {})])[0]

    def verify(self) -> list[Problem]:
        """What is wrong with the ledger file as it is now; nothing is repaired."""
        content = _read_from(self._fs, self.path, 0)
        if content is None:
            return [Problem(LEDGER, "ledger", "no ledger: nothing says what was published")]
        return chain_problems(self._fs, self._study, read_chain(content))

    def _refresh(self) -> None:
        """Read what was appended since the last look; from the start when the file is shorter or its last look ended
        badly."""
        content = _read_from(self._fs, self.path, self._known.size)
        if content is None:
            if self._known.size:
                raise EvidenceError(f"{self.path}: had {self._known.size} bytes, now shorter or gone; rows were lost")
            return
        chain = read_chain(content, self._known)
        if chain.problem:
            raise EvidenceError(f"{self.path}: {chain.problem.kind}: {chain.problem.detail}; nothing was changed")
        self._rows.extend(chain.rows)
        self._known = replace(chain, rows=())

    def _write(self, entries: list[Entry]) -> list[Row]:
        if self._known.version not in (None, VERSION):
            raise EvidenceError(
                f"{self.path}: rows of version {self._known.version}; it opens for reading, `assay fork` makes a study "
                "of this version. Nothing was changed"
            )
        lines, rows, head = b"", [], self._known.head
        for number, entry in enumerate(entries, start=len(self._rows)):
            line, row = _line(entry, number, head, at=self._clock(), who=self._who)
            lines, head = lines + line + b"\n", digest_bytes(line)
            rows.append(row)
        self._append_bytes(lines)
        self._rows.extend(rows)
        self._known = Chain((), head, self._known.size + len(lines), len(self._rows), VERSION)
        self._anchor()
        return rows

    def _append_bytes(self, content: bytes) -> None:
        new = self._fs.status(self.path) is None
        handle = self._fs.open_append(self.path)
        try:
            try:
                write_handle(self._fs, handle, content)
                self._fs.fsync(handle)
            except OSError:
                self._take_back(handle)
                raise
        finally:
            self._fs.close(handle)
        if new:
            self._fs.sync_directory(self.path.parent)

    def _take_back(self, handle: int) -> None:
        """After a failed write or fsync: cut to the known size, so that nobody reads a row of unknown durability."""
        try:
            self._fs.truncate(handle, self._known.size)
        except OSError:
            return  # the torn tail is found, kept and cut by the next writer

    def _recover(self) -> None:
        """Copy the torn tail to quarantine, cut it, and record that (rule 4)."""
        torn, directory = self._known.torn, self._study / "quarantine"
        name = f"ledger-tail.{self._known.size}.{digest_bytes(torn)[7:19]}"
        make_directories(self._fs, directory)
        if self._fs.status(directory / name) is None:
            create_durable(self._fs, directory / name, torn)
            self._fs.sync_directory(directory)
        if read_plain(self._fs, directory / name) != torn:
            raise EvidenceError(
                f"{directory / name}: should hold the torn tail of {LEDGER} and does not; the ledger is not cut. "
                f"Move it away, then run the command again"
            )
        handle = self._fs.open_append(self.path)
        try:
            self._fs.truncate(handle, self._known.size)
            self._fs.fsync(handle)
        finally:
            self._fs.close(handle)
        self._known = replace(self._known, torn=b"")
        detail = {"bytes": len(torn), "kept": f"quarantine/{name}", "reason": "torn tail"}
        self._write([Entry("recovered", LEDGER, digest_bytes(torn), detail)])

    def _anchor(self) -> None:
        """`latest.json`: derived, behind the ledger or equal to it, never ahead; so it betrays a ledger that lost
        its end."""
        content = canonical_json(latest_document(self._rows, self._known.head))
        mark = f"{os.getpid()}.{time.monotonic_ns()}"
        replace_derived(self._fs, self._study / LATEST, content, mark=mark, durable=False)


def latest_document(rows: list[Row], head: str | None) -> dict[str, Any]:
    """The content of latest.json: the head it was derived from, and the latest accepted attempt."""
    accepted = next((row for row in reversed(rows) if row.kind == "accepted"), None)
    return {
        "v": VERSION,
        "derived_from": {"rows": len(rows), "head": head},
        "latest": {"path": accepted.subject, "digest": accepted.digest} if accepted else None,
    }


def read_chain(content: bytes, after: Chain | None = None) -> Chain:
    """Read ledger bytes that follow the rows of `after`; the first whole row that is wrong ends it with a problem."""
    start = after or Chain((), None, 0, 0)
    rows: list[Row] = []
    head, version, position = start.head, start.version, 0
    while (end := content.find(b"\n", position)) >= 0:
        line, number = content[position:end], start.count + len(rows)
        row, wrong = _parse_line(line, number, head, version)
        if row is None:
            rest, size = content[position:], start.size + position
            if b"\0" in rest:  # a hole: blocks of an append that never reached the disk; JSON text has no NUL
                return Chain(tuple(rows), head, size, number, version, torn=rest)
            problem = Problem(LEDGER, "ledger", f"line {number + 1}: {wrong}")
            return Chain(tuple(rows), head, size, number, version, problem=problem)
        rows.append(row)
        head, version, position = digest_bytes(line), row.v, end + 1
    tail = content[position:]
    return Chain(tuple(rows), head, start.size + position, start.count + len(rows), version, torn=tail)


def study_id(rows: Sequence[Row], head: str | None) -> str | None:
    """The full id of a study: the digest of its ledger's first row, which binds root, plan and moment."""
    return rows[1].prev if len(rows) > 1 else head


def _parse_line(line: bytes, number: int, head: str | None, version: int | None) -> tuple[Row | None, str]:
    """The row of a line, upgraded in memory but for `v`, which stays what was read; or why it is none."""
    try:
        document = json.loads(line)
        found = document["v"]
        if found not in (VERSION, *UPGRADES):
            return None, f"version {found!r}; this version of Assay reads {VERSION}"
        if version is not None and found != version:
            return None, f"version {found} after rows of version {version}; a ledger does not mix them"
        if found != VERSION:
            document = {**UPGRADES[found](document), "v": found}
        if document.keys() != _FIELDS or document["kind"] not in KINDS:
            return None, f"not a row: {line[:80]!r}"
        if not isinstance(document["detail"], dict) or not isinstance(document["subject"], str):
            return None, "subject is not a text or detail not an object"
        row = Row(**document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"not a row ({error})"
    if row.seq != number:
        return None, f"expected row {number}, found row {row.seq!r}"
    if row.prev != head:
        return None, f"its prev is {row.prev}, the row before it is {head}"
    if row.v == VERSION and row.sum != _checksum(line):
        return None, "its bytes differ from its own checksum"
    return row, ""


def _checksum(line: bytes) -> str | None:
    at = line.rfind(_SUM)
    if at < 0:
        return None
    start = at + len(_SUM)
    return "sha256:" + sha256(line[:start] + line[start + _SUM_LENGTH :]).hexdigest()


def _line(entry: Entry, seq: int, head: str | None, *, at: datetime, who: str) -> tuple[bytes, Row]:
    if entry.kind not in KINDS:
        raise ValueError(f"ledger kind {entry.kind!r}; known: {', '.join(sorted(KINDS))}")
    moment = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    row = Row(VERSION, seq, entry.kind, entry.subject, entry.digest, moment, who, entry.detail, head, "")
    line = canonical_json(asdict(row))
    checksum = "sha256:" + sha256(line).hexdigest()
    at_sum = line.rfind(_SUM) + len(_SUM)
    return line[:at_sum] + checksum.encode() + line[at_sum:], Row(**{**asdict(row), "sum": checksum})


def _read_from(fs: FileSystem, path: Path, offset: int) -> bytes | None:
    """The bytes from `offset` on; None when the file is absent or shorter."""
    status = fs.status(path)
    if status is None or status.size < offset:
        return None
    handle = fs.open_plain(path)
    try:
        fs.seek(handle, offset)
        return read_handle(fs, handle)
    finally:
        fs.close(handle)


def chain_problems(fs: FileSystem, study: Path, chain: Chain) -> list[Problem]:
    """What is wrong with a ledger that was read from the start: a wrong row, a torn tail, or less than latest.json
    saw."""
    problems = [chain.problem] if chain.problem else []
    if chain.torn:
        problems.append(Problem(LEDGER, "torn_tail", f"{len(chain.torn)} bytes after the last whole row"))
    return problems + witness_problems(_read_from(fs, study / LATEST, 0), LATEST, chain)


def witness_problems(derived: bytes | None, name: str, chain: Chain) -> list[Problem]:
    """What a derived file (`derived_from: {rows, head}`) betrays: it may be behind the ledger, never ahead, never
    elsewhere."""
    try:
        source = json.loads(derived or b"")["derived_from"]
        rows, head = int(source["rows"]), str(source["head"])
    except (ValueError, KeyError, TypeError):
        return []  # derived and absent or damaged: no witness, no problem
    if rows > chain.count and not chain.problem:
        return [Problem(LEDGER, "truncated", f"{name} was derived from {rows} rows, {chain.count} are left")]
    if 0 < rows <= chain.count and _head_at(chain, rows) != head:
        return [Problem(LEDGER, "rewritten", f"{name} saw head {head} after {rows} rows, the ledger another")]
    return []


def _head_at(chain: Chain, rows: int) -> str | None:
    return chain.head if rows == len(chain.rows) else chain.rows[rows].prev
