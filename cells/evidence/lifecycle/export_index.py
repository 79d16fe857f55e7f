"""export.json: what an export holds, told before its first byte of content, so that a reader admits nothing else.

Rules:
1. Content travels under carrier names: letters, digits and `._-+@,/` as they are, every other byte as `=XX`. No
   archive format,
   shell or file system has an opinion about them.
2. Files, links (as data: never as links of an archive) and empty directories are entries; anything else cannot be
   exported.
3. The same study gives the same entries, the same bytes of export.json and the same archive.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json
from cells.evidence.fs import Entry, FileSystem, Kind, walk
from cells.evidence.fs_real import REAL
from cells.evidence.manifest import decode_name, encode_name, member_digest

INDEX = "export.json"
CONTENT = "content/"
VERSION = 1
INDEX_LIMIT = 512 << 20
"""Bytes of an export.json that a reader accepts."""
_SAFE = re.compile(rb"[A-Za-z0-9._+@,/-]")
_CARRIER = re.compile(r"(?:[A-Za-z0-9._+@,/-]|=[0-9A-F]{2})+")
_LINKS_BELOW = ("tasks/", "scripts/", "inputs/", "quarantine/")


@dataclass(frozen=True)
class Item:
    """One entry. `path` as in manifests; `sha256` (hex) and `size` of files; `target` of links, encoded like a path."""

    path: str
    kind: str
    size: int = 0
    sha256: str | None = None
    executable: bool = False
    target: str | None = None


@dataclass(frozen=True)
class Index:
    """The content of export.json."""

    kind: str
    """study, or bundle"""
    facts: dict[str, Any]
    """name, study_id, head, rows, plan, policy: where it comes from"""
    items: tuple[Item, ...]

    def to_bytes(self) -> bytes:
        """The canonical bytes of export.json."""
        entries = [asdict(item) for item in self.items]
        return canonical_json({"v": VERSION, "kind": self.kind, "facts": self.facts, "entries": entries})

    def files(self) -> dict[str, Item]:
        """Carrier name (below content/) -> file."""
        return {carrier(decode_name(item.path)): item for item in self.items if item.kind == "file"}


def items_below(root: Path, names: tuple[str, ...], fs: FileSystem = REAL) -> Iterator[Item]:
    """The entries of the named files and folders of a directory, sorted. EvidenceError for what cannot be exported."""
    tree = fs.tree(root)
    try:
        found: dict[str, Entry] = {}
        for name in names:
            if fs.status(root / name) is None:
                continue
            top = tree.status(name)
            found[name] = top
            if top.kind is Kind.DIRECTORY:
                found |= {entry.name: entry for entry in walk(tree, name)}
        parents = {name.rpartition("/")[0] for name in found}
        for name in sorted(found):
            entry = found[name]
            if entry.kind is Kind.DIRECTORY and name in parents:
                continue
            yield _item(tree, entry, fs)
    finally:
        tree.close()


def _item(tree: Any, entry: Entry, fs: FileSystem) -> Item:
    path = encode_name(entry.name)
    if entry.kind is Kind.DIRECTORY:
        return Item(path, "directory")
    if entry.kind is Kind.LINK and entry.name.startswith(_LINKS_BELOW):
        return Item(path, "link", target=encode_name(tree.target(entry.name)))
    if entry.kind is not Kind.FILE or entry.links != 1:
        raise EvidenceError(f"{entry.name}: a {entry.kind} with {entry.links} links; only plain files are exported")
    digest, size = member_digest(fs, tree, entry.name)
    return Item(path, "file", size, digest, bool(entry.mode & stat.S_IXUSR))


def carrier(path: str) -> str:
    """The carrier name of a path (rule 1)."""
    raw = os.fsencode(path)
    return "".join(chr(byte) if _SAFE.fullmatch(bytes([byte])) else f"={byte:02X}" for byte in raw)


def is_carrier(name: str) -> bool:
    """Whether a name could have come from `carrier` and stays beneath its root."""
    return bool(_CARRIER.fullmatch(name)) and all(part not in ("", ".", "..") for part in name.split("/"))


def parse_index(content: bytes) -> Index:
    """The index of export.json's bytes; EvidenceError says what is wrong with them."""
    try:
        document = json.loads(content)
        if document["v"] != VERSION:
            raise EvidenceError(f"{INDEX}: version {document['v']!r}; this version of Assay reads {VERSION}")
        index = Index(document["kind"], document["facts"], tuple(Item(**entry) for entry in document["entries"]))
        if index.to_bytes() != content:
            raise EvidenceError(f"{INDEX}: not in its canonical form")
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{INDEX}: not an index of an export ({type(error).__name__}: {error})") from error
    _refuse_hostile(index)
    return index


def _refuse_hostile(index: Index) -> None:
    seen: set[str] = set()
    links = {item.path for item in index.items if item.kind == "link"}
    for item in index.items:
        decode_name(item.path)
        parts = item.path.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if item.path in seen or above & links:
            raise EvidenceError(f"{INDEX}: {item.path!r} is there twice, or lies below a link")
        if item.kind == "link" and not item.path.startswith(_LINKS_BELOW):
            raise EvidenceError(f"{INDEX}: {item.path!r} is a link; links belong to frozen tasks only")
        if item.kind not in ("file", "link", "directory") or item.size < 0:
            raise EvidenceError(f"{INDEX}: {item.path!r} has the kind {item.kind!r}")
        seen.add(item.path)
