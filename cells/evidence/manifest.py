"""The manifest of a bundle: an in-toto Statement over every member, and the check that a directory is exactly what
it says.

Rules (30-evidence 1, 17, 38-40):
1. `manifest.json` is the marker: a directory without it is not a bundle, whatever else lies in it.
2. Its bytes are RFC 8785; `subject` lists every other file with its sha256, sorted by name; the sets are equal, not
   subsets.
3. `predicate.checksum` is the digest of the statement without that field, so that the manifest guards its own bytes
   too.
4. Each kind of unit has a core set that must be there. What is no plain file with one link is refused.
5. Names: UTF-8 as it is; `%` and every byte that is not UTF-8 as `%XX`.

The Statement shape is in-toto's (https://in-toto.io/Statement/v1); no SLSA level is claimed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.fs import FileSystem, Kind, Tree, digest_handle, read_handle, walk
from cells.evidence.fs_real import REAL
from cells.evidence.problem import Problem

MANIFEST = "manifest.json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:assay:bundle:v1"
VERSION = 1
MANIFEST_LIMIT = 256 << 20
"""Bytes of a manifest that a reader accepts."""

_PROVENANCE = "provenance/"
CORE: dict[str, tuple[str, ...]] = {
    "attempt": (
        "start/spec.json",
        "start/plan.json",
        "live/trace.jsonl",
        "live/fingerprint.txt",
        "post/verify.json",
        "run_meta.json",
        _PROVENANCE,
    ),
    "lost_attempt": ("start/spec.json", "start/plan.json", "post/verify.json", "run_meta.json"),
    "verification": ("verify.json", "source.json"),
    "score": ("score/score_result.json", "source.json"),
    "replay": ("source.json",),
    "branch_point": (),
    "branch_attempt": ("branch_attempt_manifest.json",),
    "export": (),
    "note": (),
}
"""Kind of unit -> members that it cannot be without (the manifest itself is the seventh of an attempt); a name that
ends in "/" asks
for at least one member below it. A `lost_attempt` was lost before or during its live side: its verdict is not_run,
never accepted."""


_PREDICATE = b'"predicate":{'


class OtherVersion(EvidenceError):
    """A manifest of a version that this Assay does not read."""


@dataclass(frozen=True)
class Statement:
    """A manifest: members and empty directories of a bundle, and the predicate that says what it is."""

    kind: str
    members: dict[str, str]
    """encoded name -> sha256 as 64 hex characters"""
    sizes: dict[str, int]
    ids: dict[str, Any] = field(default_factory=dict)
    """What identifies the unit: cell_id, attempt, runtime, source digests ... Never parsed from names."""
    empty_directories: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """The bytes of manifest.json: canonical, with the checksum of everything but itself."""
        predicate: dict[str, Any] = {
            "v": VERSION,
            "kind": self.kind,
            "ids": self.ids,
            "sizes": self.sizes,
            "empty_directories": sorted(self.empty_directories),
        }
        bare = canonical_json(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": name, "digest": {"sha256": self.members[name]}} for name in sorted(self.members)],
                "predicateType": PREDICATE_TYPE,
                "predicate": predicate,
            }
        )
        at = bare.index(_PREDICATE) + len(_PREDICATE)  # `checksum` sorts before every other key of the predicate
        return bare[:at] + f'"checksum":"{digest_bytes(bare)}",'.encode() + bare[at:]

    @property
    def digest(self) -> str:
        """`bundle_sha256`: the digest of manifest.json, which is the identity of the published bytes."""
        return digest_bytes(self.to_bytes())


def encode_name(name: str) -> str:
    """A relative path as it stands in a manifest (rule 5)."""
    if name.isascii() and "%" not in name:
        return name
    parts: list[str] = []
    for character in name:
        if character == "%":
            parts.append("%25")
        elif "\udc80" <= character <= "\udcff":
            parts.append(f"%{ord(character) - 0xDC00:02X}")
        else:
            parts.append(character)
    return "".join(parts)


def decode_name(encoded: str) -> str:
    """The path of an encoded name; EvidenceError when it could lead out of a bundle."""
    if not _is_inside(encoded):
        raise EvidenceError(
            f"name {encoded!r} in a manifest: expected a relative path without empty, `.` or `..` parts"
        )
    return decode_text(encoded)


def decode_text(encoded: str) -> str:
    """What `encode_name` encoded, without asking whether it is a path beneath anything (targets of links)."""
    raw = re.sub(rb"%([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), encoded.encode("utf-8"))
    return os.fsdecode(raw)


def build_statement(stage: Path, kind: str, ids: dict[str, Any], fs: FileSystem = REAL) -> Statement:
    """Digest every member of a staged directory (its manifest.json left out). EvidenceError for links, special
    files, missing core."""
    members: dict[str, str] = {}
    sizes: dict[str, int] = {}
    tree = fs.tree(stage)
    try:
        found = _inventory(tree)
        if found.problems:
            raise EvidenceError(f"{stage}: cannot be published: {_first(found.problems)}")
        for name in found.files:
            if name != MANIFEST:
                encoded = encode_name(name)
                members[encoded], sizes[encoded] = member_digest(fs, tree, name)
    finally:
        tree.close()
    problems = core_problems(kind, members)
    if problems:
        raise EvidenceError(f"{stage}: an incomplete {kind} cannot be published: {_first(problems)}")
    return Statement(kind, members, sizes, ids, found.empty)


def parse_statement(content: bytes) -> Statement:
    """The statement of manifest bytes; `EvidenceError` says what is wrong with them."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise EvidenceError(f"{MANIFEST}: not JSON ({error})") from error
    try:
        version = document["predicate"]["v"]
        if document["_type"] != STATEMENT_TYPE or not str(document["predicateType"]).startswith("urn:assay:bundle:v"):
            raise EvidenceError(
                f"{MANIFEST}: found {document['_type']!r} {document['predicateType']!r}; not a bundle of Assay"
            )
        if version != VERSION or document["predicateType"] != PREDICATE_TYPE:
            raise OtherVersion(f"{MANIFEST}: version {version!r}; this version of Assay reads {VERSION}")
        statement = _statement(document)
        canonical = statement.to_bytes()
    except EvidenceError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EvidenceError(f"{MANIFEST}: not a statement ({type(error).__name__}: {error})") from error
    if canonical != content:
        raise EvidenceError(
            f"{MANIFEST}: its bytes are not the canonical form of what they say, or its checksum differs"
        )
    return statement


def read_statement(bundle: Path, fs: FileSystem = REAL) -> tuple[Statement, str]:
    """The statement of a bundle and the digest of its bytes; `EvidenceError` when there is none."""
    tree = _open_tree(bundle, fs)
    try:
        content = _read_member(fs, tree, MANIFEST, MANIFEST_LIMIT)
    finally:
        tree.close()
    return parse_statement(content), digest_bytes(content)


@dataclass(frozen=True)
class Examined:
    """What a check of a directory found: its problems, and its statement where that can be believed."""

    problems: list[Problem]
    statement: Statement | None = None
    digest: str | None = None


def verify_bundle(path: Path, fs: FileSystem = REAL) -> list[Problem]:
    """Every way in which a directory is not the bundle that its manifest describes; [] when it is. Changes nothing,
    follows no link."""
    return examine_bundle(path, fs).problems


def examine_bundle(path: Path, fs: FileSystem = REAL) -> Examined:
    """Check a directory against its manifest, read once."""
    try:
        tree = _open_tree(path, fs)
    except EvidenceError as error:
        return Examined([Problem("", "not_a_bundle", str(error))])
    try:
        return _examine(tree, fs)
    except OSError as error:
        return Examined([Problem("", "unreadable", str(error))])
    finally:
        tree.close()


def _examine(tree: Tree, fs: FileSystem) -> Examined:
    found = _inventory(tree)
    if MANIFEST not in found.files:
        return Examined(
            [*found.problems, Problem(MANIFEST, "incomplete", "no manifest.json: never completed, or lost")]
        )
    try:
        content = _read_member(fs, tree, MANIFEST, MANIFEST_LIMIT)
        statement = parse_statement(content)
    except OtherVersion as error:
        return Examined([Problem(MANIFEST, "version", str(error))])
    except EvidenceError as error:
        return Examined([Problem(MANIFEST, "manifest", str(error))])
    problems = [*found.problems, *core_problems(statement.kind, statement.members)]
    problems += _set_problems(found, statement)
    problems += _content_problems(fs, tree, found, statement)
    return Examined(sorted(problems), statement, digest_bytes(content))


def core_problems(kind: str, names: Iterable[str]) -> list[Problem]:
    """What the core set of this kind of unit lacks."""
    if kind not in CORE:
        return [Problem(MANIFEST, "manifest", f"kind {kind!r}; known kinds: {', '.join(CORE)}")]
    present = set(names)
    return [
        Problem(required, "incomplete", f"a bundle of kind {kind} must have it")
        for required in CORE[kind]
        if required not in present
        and not (required.endswith("/") and any(name.startswith(required) for name in present))
    ]


def member_digest(fs: FileSystem, tree: Tree, name: str) -> tuple[str, int]:
    """sha256 hex and size of a member."""
    handle = tree.open(name)
    try:
        return digest_handle(fs, handle)
    finally:
        fs.close(handle)


@dataclass(frozen=True)
class _Inventory:
    files: dict[str, int]
    """name -> size of the plain files"""
    empty: tuple[str, ...]
    problems: list[Problem]


def _inventory(tree: Tree) -> _Inventory:
    device = tree.status("").device
    files: dict[str, int] = {}
    directories: set[str] = set()
    problems: list[Problem] = []
    for entry in walk(tree):
        directories.discard(entry.name.rpartition("/")[0])
        name = encode_name(entry.name)
        if entry.device != device:
            problems.append(Problem(name, "mount", "lies on another device than the bundle"))
        elif entry.kind is Kind.DIRECTORY:
            directories.add(entry.name)
        elif entry.kind is Kind.LINK:
            problems.append(Problem(name, "link", "a symbolic link; only plain files belong to a bundle"))
        elif entry.kind is Kind.SPECIAL:
            problems.append(Problem(name, "special", "neither a file nor a directory"))
        elif entry.links != 1:
            problems.append(Problem(name, "hard_link", f"{entry.links} links to this file; expected 1"))
        else:
            files[entry.name] = entry.size
    return _Inventory(files, tuple(sorted(encode_name(name) for name in directories)), problems)


def _set_problems(found: _Inventory, statement: Statement) -> list[Problem]:
    present = {encode_name(name) for name in found.files} - {MANIFEST}
    reported = {problem.path for problem in found.problems}
    problems = [
        Problem(name, "missing", "listed in the manifest, not there")
        for name in statement.members.keys() - present - reported
    ]
    problems += [
        Problem(name, "extra", "there, not listed in the manifest") for name in present - statement.members.keys()
    ]
    listed, empty = set(statement.empty_directories), set(found.empty)
    problems += [Problem(name, "missing", "an empty directory that the manifest lists") for name in listed - empty]
    problems += [
        Problem(name, "extra", "an empty directory that the manifest does not list") for name in empty - listed
    ]
    return problems


def _content_problems(fs: FileSystem, tree: Tree, found: _Inventory, statement: Statement) -> list[Problem]:
    problems: list[Problem] = []
    for name in found.files:
        encoded = encode_name(name)
        if encoded not in statement.members:
            continue
        try:
            digest, size = member_digest(fs, tree, name)
        except OSError as error:
            problems.append(Problem(encoded, "unreadable", str(error)))
            continue
        if digest != statement.members[encoded] or size != statement.sizes.get(encoded):
            expected = f"{statement.sizes.get(encoded)} bytes sha256:{statement.members[encoded]}"
            problems.append(Problem(encoded, "altered", f"expected {expected}, found {size} bytes sha256:{digest}"))
    return problems


def _statement(document: dict[str, Any]) -> Statement:
    members: dict[str, str] = {}
    for subject in document["subject"]:
        name = subject["name"]
        if not _is_inside(name) or name in members:
            raise EvidenceError(
                f"{MANIFEST}: member {name!r}: expected a relative path, once, without empty, `.` or `..` parts"
            )
        members[name] = subject["digest"]["sha256"]
    predicate = document["predicate"]
    if not isinstance(predicate["ids"], dict) or predicate["sizes"].keys() != members.keys():
        raise EvidenceError(f"{MANIFEST}: sizes and subjects name different members")
    return Statement(
        predicate["kind"], members, predicate["sizes"], predicate["ids"], tuple(predicate["empty_directories"])
    )


def _is_inside(name: Any) -> bool:
    if not isinstance(name, str) or "\0" in name:
        return False
    return not any(part in ("", ".", "..") for part in name.split("/"))


def _open_tree(path: Path, fs: FileSystem) -> Tree:
    status = fs.status(path)
    if status is None or status.kind is not Kind.DIRECTORY:
        raise EvidenceError(
            f"{path}: expected a bundle directory, found {'nothing' if status is None else status.kind}"
        )
    return fs.tree(path)


def _read_member(fs: FileSystem, tree: Tree, name: str, limit: int) -> bytes:
    try:
        status = tree.status(name)
        if status.kind is not Kind.FILE or status.links != 1 or status.size > limit:
            raise EvidenceError(f"{name}: expected a plain file of at most {limit} bytes, found {status}")
        handle = tree.open(name)
    except OSError as error:
        raise EvidenceError(f"{name}: cannot be read ({error.strerror})") from error
    try:
        return read_handle(fs, handle)
    finally:
        fs.close(handle)


def _first(problems: list[Problem]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0].path}: {problems[0].kind}: {problems[0].detail}{more}"
