"""Roots: the only places where evidence lies, and references below them.

Rules (30-evidence 16, 19, 45):
1. `root.json` of a studies root holds the only absolute path, for people; nothing is resolved through it, so a tree
   can move.
2. Everything else is a `Reference`: the name of an authority and a relative path. It is resolved by opening, beneath
   the authority,
   never through a link, and refused before anything is read or written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from cells.errors import BoundaryViolation, EnvironmentFault, EvidenceError, UsageError
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.fs import FileSystem, create_durable, read_handle, read_plain
from cells.evidence.fs_real import REAL
from cells.evidence.locks import Lock, refuse_network

ROOT_FILE = "root.json"
VERSION = 1
_FIELDS = {"v", "kind", "id", "path", "created_at"}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class StudiesRoot:
    """A directory of studies. `id` is its identity; `recorded` is the path that root.json states, right until the
    tree moves."""

    path: Path
    id: str
    digest: str
    recorded: str

    @classmethod
    def ensure(
        cls, path: Path, *, clock: Callable[[], datetime] | None = None, new_id: str | None = None
    ) -> StudiesRoot:
        """The root at a path, made when there is none. EnvironmentFault on a network file system or a read-only one."""
        path = Path(os.path.abspath(path))
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o750)
            refuse_network(path)
            if not (path / ROOT_FILE).is_file():
                now = (clock or (lambda: datetime.now(UTC)))()
                document = {
                    "v": VERSION,
                    "kind": "studies-root",
                    "id": new_id or uuid4().hex,
                    "path": str(path),
                    "created_at": now.isoformat(timespec="seconds"),
                }
                create_durable(REAL, path / ROOT_FILE, canonical_json(document) + b"\n")
                REAL.sync_directory(path)
        except FileExistsError:
            pass  # another process made it in between: its root is the root
        except OSError as error:
            raise EnvironmentFault(f"{path}: cannot keep studies here ({error.strerror})") from error
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> StudiesRoot:
        """The root at a path; EvidenceError when root.json is missing, damaged or of another version."""
        path = Path(os.path.abspath(path))
        try:
            content = read_plain(REAL, path / ROOT_FILE, 1 << 16)
            document = json.loads(content)
            found = document["v"], document["kind"], document.keys()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise EvidenceError(f"{path / ROOT_FILE}: not the root.json of a studies root ({error})") from error
        if found[0] != VERSION:
            raise EvidenceError(f"{path / ROOT_FILE}: version {found[0]!r}; this version of Assay reads {VERSION}")
        if found[1:] != ("studies-root", _FIELDS):
            raise EvidenceError(f"{path / ROOT_FILE}: not the root.json of a studies root (kind or keys)")
        return cls(path, str(document["id"]), digest_bytes(content), str(document["path"]))

    @property
    def has_moved(self) -> bool:
        """Whether the tree lies elsewhere than root.json states; it works all the same."""
        return self.recorded != str(self.path)

    def study_path(self, name: str) -> Path:
        """Where a study of this name lies or would lie."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"study name {name!r}: expected lower-case letters, digits, `.`, `_`, `-`, at most 64")
        return self.path / name

    def lock(self, what: str) -> Lock:
        """The lock of one kind of work on the root itself (making a study of a name, a restore)."""
        folder = self.path / ".locks"
        folder.mkdir(mode=0o750, exist_ok=True)
        return Lock(folder / what, what=f"studies root {self.path} ({what})")

    def studies(self) -> Iterator[Path]:
        """The directories that hold a study, by name."""
        for entry in sorted(self.path.iterdir()):
            if _NAME.fullmatch(entry.name) and (entry / "ledger.jsonl").is_file():
                yield entry


@dataclass(frozen=True)
class Reference:
    """A file below a named authority: `{"root": "study", "path": "cells/..."}`."""

    root: str
    path: str

    def as_json(self) -> dict[str, str]:
        """The form in which references are saved."""
        return {"root": self.root, "path": self.path}

    @classmethod
    def of(cls, value: Any) -> Reference:
        """A reference from JSON. BoundaryViolation for an absolute path, `..`, an empty part or unknown keys."""
        if not isinstance(value, dict) or value.keys() != {"root", "path"}:
            raise BoundaryViolation(f"reference {value!r}: expected an object with root and path")
        return cls(str(value["root"]), checked_path(value["path"]))


def checked_path(path: Any) -> str:
    """A relative POSIX path without empty, `.` or `..` parts, else BoundaryViolation."""
    parts = path.split("/") if isinstance(path, str) else [""]
    if "\0" in str(path) or any(part in ("", ".", "..") for part in parts):
        raise BoundaryViolation(f"path {path!r}: expected a relative path below its root, without `..`")
    return str(path)


class Roots:
    """The allow-list of authorities: name -> directory."""

    def __init__(self, directories: Mapping[str, Path], fs: FileSystem = REAL) -> None:
        self._directories, self._fs = dict(directories), fs

    @contextmanager
    def open(self, reference: Reference) -> Iterator[int]:
        """A handle for reading what the reference names. BoundaryViolation for an unknown root, a link or an escape
        on the way."""
        directory = self._directories.get(reference.root)
        if directory is None:
            known = ", ".join(sorted(self._directories))
            raise BoundaryViolation(f"reference to root {reference.root!r}; known roots: {known}")
        tree = self._fs.tree(directory)
        try:
            handle = tree.open(checked_path(reference.path))
        except OSError as error:
            raise BoundaryViolation(
                f"{reference.root}:{reference.path}: {error.strerror}; nothing was opened"
            ) from error
        finally:
            tree.close()
        try:
            yield handle
        finally:
            self._fs.close(handle)

    def read(self, reference: Reference) -> bytes:
        """The bytes that the reference names."""
        with self.open(reference) as handle:
            return read_handle(self._fs, handle)
