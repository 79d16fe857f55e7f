"""Reading a bundle's members so that what is parsed is what was published: proved against the manifest, the manifest
against the ledger.

Rules (30-evidence 35):
1. The manifest is read first; its digest must be the one asked for (from a ledger's row) where one is given.
2. Every read proves the member's bytes; a member that the manifest does not list is not there, whatever lies in the
   directory.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.fs import FileSystem, read_handle
from cells.evidence.fs_real import REAL
from cells.evidence.history import Unit
from cells.evidence.manifest import decode_name, encode_name, read_statement


class BundleReader:
    """A published bundle, read member by member."""

    def __init__(self, bundle: Path, digest: str | None = None, fs: FileSystem = REAL) -> None:
        self._bundle, self._fs = bundle, fs
        self._statement, self.digest = read_statement(bundle, fs)
        if digest is not None and self.digest != digest:
            raise EvidenceError(f"{bundle}: expected the bundle {digest}, found {self.digest}")

    @classmethod
    def of(cls, study: Path, unit: Unit, fs: FileSystem = REAL) -> BundleReader:
        """The bundle that a ledger's row names, with the manifest that the row binds."""
        return cls(study / unit.path, unit.digest, fs)

    @property
    def kind(self) -> str:
        return self._statement.kind

    @property
    def ids(self) -> dict[str, Any]:
        """What identifies the unit, as published."""
        return dict(self._statement.ids)

    def names(self) -> list[str]:
        """The members, as paths, sorted; without the manifest."""
        return sorted(decode_name(name) for name in self._statement.members)

    def has(self, name: str) -> bool:
        """Whether the bundle has this member."""
        return encode_name(name) in self._statement.members

    def read(self, name: str) -> bytes:
        """The proved bytes of a member. EvidenceError when it is not listed, cannot be read as a plain file, or
        differs."""
        expected = self._statement.members.get(encode_name(name))
        if expected is None:
            raise EvidenceError(f"{self._bundle}: has no member {name!r}")
        tree = self._fs.tree(self._bundle)
        try:
            handle = tree.open(name)
        except OSError as error:
            raise EvidenceError(f"{self._bundle / name}: cannot be read ({error.strerror})") from error
        finally:
            tree.close()
        try:
            content = read_handle(self._fs, handle)
        finally:
            self._fs.close(handle)
        if sha256(content).hexdigest() != expected:
            raise EvidenceError(f"{self._bundle / name}: its bytes are not those that were published")
        return content

    def document(self, name: str) -> Any:
        """A proved member, parsed as JSON."""
        try:
            return json.loads(self.read(name))
        except ValueError as error:
            raise EvidenceError(f"{self._bundle / name}: not JSON ({error})") from error
