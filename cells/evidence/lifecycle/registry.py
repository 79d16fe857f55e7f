"""The registry: many studies in many roots, seen from one place of its own that only ever reads them.

    <registry>/registry.json                         identity, schema version
               roots.json                            registered roots: id, path, role, tags
               groups/<group>/{group.json,children.json,directives.jsonl,snapshots.json}
               events.jsonl                          append-only

Rules (30-evidence 29, 30; storage model "Manager-owned cross-project state"):
1. A root is registered by the identity in its root.json; nothing is ever written below it.
2. Groups, children, directives and tags are the registry's own. Snapshots are what it last read, with the head they
   were read at.
3. The study wins: a snapshot whose head is not the study's is `stale`, one whose study cannot be read is `unreachable`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from cells.design.cell import slug
from cells.errors import AssayError, EvidenceError, UsageError
from cells.evidence.digest import canonical_json
from cells.evidence.files import append
from cells.evidence.fs import create_durable, make_directories, read_plain, replace_derived
from cells.evidence.fs_real import REAL
from cells.evidence.history import History
from cells.evidence.ledger import study_id, utc_now
from cells.evidence.locks import Lock
from cells.evidence.roots import StudiesRoot
from cells.evidence.verify_study import read_study

VERSION = 1
IDENTITY, ROOTS, EVENTS = "registry.json", "roots.json", "events.jsonl"


@dataclass(frozen=True)
class Child:
    """A study as a group names it: the identity of its root, and its name there."""

    root: str
    study: str

    @classmethod
    def of(cls, text: str) -> Child:
        """`<root id>/<study>`"""
        root, _, study = text.partition("/")
        if not root or not study or "/" in study:
            raise UsageError(f"child {text!r}: expected ROOT_ID/STUDY, as `assay studies` prints it")
        return cls(root, study)


class Registry:
    """A registry directory."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = utc_now) -> None:
        self.path, self._clock = path, clock
        self._lock = Lock(path / "lock", what=f"registry {path.name}")

    @classmethod
    def ensure(cls, path: Path, clock: Callable[[], datetime] = utc_now) -> Registry:
        """The registry at a path, made when there is none; EvidenceError for one of another version."""
        path = path.absolute()
        make_directories(REAL, path)
        if REAL.status(path / IDENTITY) is None:
            create_durable(REAL, path / IDENTITY, canonical_json({"v": VERSION, "kind": "registry", "id": uuid4().hex}))
        _read(path / IDENTITY)
        return cls(path, clock)

    def roots(self) -> list[dict[str, Any]]:
        """Registered roots: {"id", "path", "role", "tags"}."""
        if REAL.status(self.path / ROOTS) is None:
            return []
        return list(_read(self.path / ROOTS)["roots"])

    def add(self, root: Path, role: str = "studies", tags: Iterable[str] = ()) -> dict[str, Any]:
        """Register a root; known by its id: a root that moved gets its new path, the same id twice is one root."""
        found = StudiesRoot.open(root)
        with self._lock.held(10.0):
            others = [one for one in self.roots() if one["id"] != found.id]
            known = next((one for one in self.roots() if one["id"] == found.id), None)
            entry = {
                "id": found.id,
                "path": str(found.path),
                "role": role if known is None else known["role"],
                "tags": sorted({*tags, *(known["tags"] if known else ())}),
            }
            if entry != known:
                self._replace(self.path / ROOTS, {"v": VERSION, "roots": sorted([*others, entry], key=_by_id)})
                self._event("root-added" if known is None else "root-changed", found.id)
        return entry

    def tag(self, root_id: str, tags: Iterable[str]) -> dict[str, Any]:
        """Give a registered root these tags instead of those it has."""
        with self._lock.held(10.0):
            roots = self.roots()
            entry = next((one for one in roots if one["id"] == root_id), None)
            if entry is None:
                raise UsageError(f"root {root_id!r}: not registered; `assay studies add DIR` registers one")
            entry["tags"] = sorted(set(tags))
            self._replace(self.path / ROOTS, {"v": VERSION, "roots": roots})
            self._event("root-tagged", root_id)
        return entry

    def group(self, name: str, children: Iterable[Child] = ()) -> dict[str, Any]:
        """Make a group or add children to it: {"name", "children"}."""
        folder = self._folder(name)
        with self._lock.held(10.0):
            make_directories(REAL, folder)
            if REAL.status(folder / "group.json") is None:
                create_durable(REAL, folder / "group.json", canonical_json({"v": VERSION, "name": name}))
                self._event("group-created", name)
            known = self.children(name)
            new = [child for child in dict.fromkeys(children) if child not in known]
            if new:
                listed = [{"root": child.root, "study": child.study} for child in (*known, *new)]
                self._replace(folder / "children.json", {"v": VERSION, "children": listed})
                self._event("children-added", name)
        return {"name": name, "children": [f"{child.root}/{child.study}" for child in self.children(name)]}

    def children(self, name: str) -> list[Child]:
        """The studies of a group."""
        path = self._folder(name) / "children.json"
        if REAL.status(path) is None:
            return []
        return [Child(one["root"], one["study"]) for one in _read(path)["children"]]

    def direct(self, name: str, text: str) -> None:
        """Add a directive to a group: a note to people, append-only."""
        if not text.strip():
            raise UsageError(f"group {name!r}: asked to add an empty directive")
        folder = self._existing(name)
        with self._lock.held(10.0):
            self._append(folder / "directives.jsonl", {"text": text})
            self._event("directive-added", name)

    def directives(self, name: str) -> list[str]:
        """The directives of a group, oldest first."""
        path = self._existing(name) / "directives.jsonl"
        return [] if REAL.status(path) is None else [str(row["text"]) for row in _rows(path)]

    def sync(self, name: str) -> list[dict[str, Any]]:
        """Read the group's studies and keep what was seen; the snapshots."""
        folder = self._existing(name)
        taken = [self._snapshot(child) for child in self.children(name)]
        with self._lock.held(10.0):
            self._replace(folder / "snapshots.json", {"v": VERSION, "snapshots": taken})
            self._event("group-synced", name)
        return taken

    def snapshots(self, name: str) -> list[dict[str, Any]]:
        """What was seen last, each with `state`: current, stale (the study moved on) or unreachable. The study
        always wins."""
        path = self._existing(name) / "snapshots.json"
        taken = [] if REAL.status(path) is None else _read(path)["snapshots"]
        return [{**one, "state": self._state(one)} for one in taken]

    def studies(self) -> list[dict[str, Any]]:
        """Every study of every registered root, as it is now."""
        found: list[dict[str, Any]] = []
        for entry in self.roots():
            try:
                root = StudiesRoot.open(Path(entry["path"]))
                names = [path.name for path in root.studies()]
            except (AssayError, OSError) as error:
                found.append({"root": entry["id"], "path": entry["path"], "study": None, "error": str(error)})
                continue
            found += [self._snapshot(Child(entry["id"], name)) | {"tags": entry["tags"]} for name in names]
        return found

    def _snapshot(self, child: Child) -> dict[str, Any]:
        where = {"root": child.root, "study": child.study, "imported_at": self._clock().isoformat(timespec="seconds")}
        try:
            return {**where, **study_facts(self._study_path(child)), "error": None}
        except (AssayError, OSError) as error:
            return {**where, "head": None, "error": str(error)}

    def _state(self, snapshot: dict[str, Any]) -> str:
        try:
            now = read_study(self._study_path(Child(snapshot["root"], snapshot["study"])))
        except (AssayError, OSError):
            return "unreachable"
        return "current" if now.head is not None and now.head == snapshot["head"] else "stale"

    def _study_path(self, child: Child) -> Path:
        """Below the registered path, and only if the root there still is the one that was registered."""
        entry = next((one for one in self.roots() if one["id"] == child.root), None)
        if entry is None:
            raise UsageError(f"root {child.root!r}: not registered")
        root = StudiesRoot.open(Path(entry["path"]))
        if root.id != child.root:
            raise EvidenceError(f"{root.path}: holds root {root.id} now, {child.root} was registered")
        path = root.study_path(child.study)
        if REAL.status(path / "ledger.jsonl") is None:
            raise UsageError(f"{root.path}: no study {child.study!r}")
        return path

    def _folder(self, name: str) -> Path:
        return self.path / "groups" / slug(name)

    def _existing(self, name: str) -> Path:
        folder = self._folder(name)
        if REAL.status(folder / "group.json") is None:
            raise UsageError(f"group {name!r}: there is none; `assay studies group NAME` makes one")
        return folder

    def _replace(self, path: Path, document: dict[str, Any]) -> None:
        replace_derived(REAL, path, canonical_json(document), mark=f"{os.getpid()}.{time.monotonic_ns()}")

    def _event(self, kind: str, subject: str) -> None:
        self._append(self.path / EVENTS, {"kind": kind, "subject": subject})

    def _append(self, path: Path, row: dict[str, Any]) -> None:
        append(path, canonical_json({"v": VERSION, "at": self._clock().isoformat(timespec="seconds"), **row}) + b"\n")


def study_facts(study: Path) -> dict[str, Any]:
    """What a registry keeps of a study: head, rows, plan, counts; read from its ledger alone."""
    chain = read_study(study)
    if chain.problem is not None:
        raise EvidenceError(f"{study}: {chain.problem.detail}")
    history = History.of(chain.rows)
    verdicts: dict[str, int] = {}
    for unit in history.accepted_units().values():
        verdict = str(unit.detail.get("verdict"))
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    return {
        "study_id": study_id(chain.rows, chain.head),
        "head": chain.head,
        "rows": chain.count,
        "plan": history.plans[-1].digest if history.plans else None,
        "accepted": len(history.accepted_units()),
        "verdicts": verdicts,
        "archived": "." in history.archived,
        "purged": history.purged("."),
        "labels": sorted(history.labels.get(".", ())),
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_plain(REAL, path))
        version = document["v"]
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{path}: not a file of a registry ({error})") from error
    if version != VERSION:
        raise EvidenceError(f"{path}: version {version!r}; this version of Assay reads {VERSION}")
    return dict(document)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_plain(REAL, path).splitlines()]


def _by_id(entry: dict[str, Any]) -> str:
    return str(entry["id"])
