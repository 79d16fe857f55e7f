"""The bag: an export as a BagIt directory (RFC 8493), for those who keep archives with other tools.

Rules:
1. The payload is the export's members (export.json, content/, manifest.json) under data/; carrier names need no
   escaping in a bag.
2. Payload and tag manifests are sha256; the bag is published like every unit, with a manifest.json of ours at its top.
3. BagIt is a carrier, not a commit protocol: a restore believes index and manifest, not the bag's own lists alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import digest_bytes
from cells.evidence.fs import CHUNK, FileSystem, Kind, create_durable, make_directories, walk, write_handle
from cells.evidence.fs_real import REAL
from cells.evidence.lifecycle.export_index import CONTENT, INDEX, Index, is_carrier
from cells.evidence.lifecycle.proof import Members, drain, export_statement, read_export
from cells.evidence.manifest import MANIFEST, decode_name, member_digest, verify_bundle
from cells.evidence.problem import Problem

DECLARATION = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
PAYLOAD, TAGS = "manifest-sha256.txt", "tagmanifest-sha256.txt"
_LINE = re.compile(r"([0-9a-f]{64})  ?(\S.*)")


def write_bag(stage: Path, index: Index, source: Path, fs: FileSystem = REAL) -> None:
    """Build the bag of a directory whose entries are those of `index`, in a new stage directory; `publish` does the
    rest."""
    statement = export_statement(index)
    make_directories(fs, stage / "data")
    create_durable(fs, stage / "data" / INDEX, index.to_bytes())
    tree = fs.tree(source)
    try:
        for name, item in sorted(index.files().items()):
            _copy(fs, tree.open(decode_name(item.path)), stage / "data" / CONTENT / name)
    finally:
        tree.close()
    create_durable(fs, stage / "data" / MANIFEST, statement.to_bytes())
    payload = {**statement.members, MANIFEST: digest_bytes(statement.to_bytes()).removeprefix("sha256:")}
    size = sum(statement.sizes.values()) + len(statement.to_bytes())
    tags = {
        "bagit.txt": DECLARATION,
        "bag-info.txt": _information(index, size, len(payload)),
        PAYLOAD: _listing({f"data/{name}": digest for name, digest in payload.items()}),
    }
    for name, content in tags.items():
        create_durable(fs, stage / name, content)
    listed = {name: digest_bytes(content).removeprefix("sha256:") for name, content in tags.items()}
    create_durable(fs, stage / TAGS, _listing(listed))


def bag_members(bag: Path, fs: FileSystem = REAL) -> Members:
    """The members of an export in a bag, in their order; EvidenceError for a link or anything else that is no plain
    file."""
    tree = fs.tree(bag)
    try:
        found = {}
        for entry in walk(tree, "data"):
            if entry.kind is Kind.DIRECTORY:
                continue
            if entry.kind is not Kind.FILE or entry.links != 1 or not is_carrier(entry.name):
                raise EvidenceError(f"{bag / entry.name}: a {entry.kind}; only plain files of ours are admitted")
            found[entry.name.removeprefix("data/")] = entry.size
        middle = sorted(found.keys() - {INDEX, MANIFEST})
        for name in (INDEX, *middle, MANIFEST):
            if name in found:
                yield name, found[name], _chunks(fs, tree, f"data/{name}")
    except OSError as error:
        raise EvidenceError(f"{bag}: cannot be read as a bag ({error})") from error
    finally:
        tree.close()


def verify_bag(bag: Path, fs: FileSystem = REAL) -> tuple[list[Problem], int]:
    """What is wrong with a bag of ours: our manifest over all of it, and the bag's own two lists."""
    problems = verify_bundle(bag, fs)
    if problems:
        return problems, 1
    tree = fs.tree(bag)
    try:
        present = {entry.name for entry in walk(tree) if entry.kind is Kind.FILE}
        for listing, expected in (
            (PAYLOAD, {name for name in present if name.startswith("data/")}),
            (TAGS, {"bagit.txt", "bag-info.txt", PAYLOAD}),
        ):
            listed = _parse(b"".join(_chunks(fs, tree, listing)()), listing)
            problems += [
                Problem(name, "missing", f"in {listing} or in the bag, not in both")
                for name in listed.keys() ^ expected
            ]
            for name in listed.keys() & expected:
                if member_digest(fs, tree, name)[0] != listed[name]:
                    problems.append(Problem(name, "altered", f"{listing} has another digest"))
        read_export(bag_members(bag, fs), drain)
    except (EvidenceError, OSError) as error:
        problems.append(Problem(PAYLOAD, "manifest", str(error)))
    finally:
        tree.close()
    return sorted(problems), 1


def _information(index: Index, size: int, count: int) -> bytes:
    facts = index.facts
    lines = [
        "Bag-Software-Agent: assay",
        f"External-Identifier: {facts.get('study_id')}",
        f"External-Description: assay {index.kind} {facts.get('name')}, ledger head {facts.get('head')}",
        f"Payload-Oxum: {size}.{count}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _listing(digests: dict[str, str]) -> bytes:
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()


def _parse(content: bytes, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or match[2] in found:
            raise EvidenceError(f"{name}: line {line[:80]!r}")
        found[match[2]] = match[1]
    return found


def _copy(fs: FileSystem, source: int, destination: Path) -> None:
    try:
        make_directories(fs, destination.parent)
        target = fs.create(destination)
        try:
            while part := fs.read(source, CHUNK):
                write_handle(fs, target, part)
        finally:
            fs.close(target)
    finally:
        fs.close(source)


def _chunks(fs: FileSystem, tree: Any, name: str) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        handle = tree.open(name)
        try:
            while part := fs.read(handle, CHUNK):
                yield part
        finally:
            fs.close(handle)

    return read
