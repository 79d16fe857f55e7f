"""Reading an export, whatever carries it: every member announced, proved byte by byte, complete, and closed by its
manifest.

Rules (30-evidence 44):
1. The index comes first, the manifest last; in between exactly the announced files, each once, of the announced size
   and digest.
2. A sink is given only announced files; it never learns a name that the index did not check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256

from cells.errors import EvidenceError
from cells.evidence.digest import digest_bytes
from cells.evidence.lifecycle.export_index import CONTENT, INDEX, Index, Item, parse_index
from cells.evidence.manifest import MANIFEST, Statement, parse_statement

Members = Iterator[tuple[str, int, Callable[[], Iterator[bytes]]]]
"""(name, size, chunks) of what an export carries, in its order"""
Sink = Callable[[Item, Iterator[bytes]], None]


def export_statement(index: Index) -> Statement:
    """The manifest of an export: every carried file with its digest."""
    members = {CONTENT + name: str(item.sha256) for name, item in index.files().items()}
    sizes = {CONTENT + name: item.size for name, item in index.files().items()}
    content = index.to_bytes()
    members[INDEX], sizes[INDEX] = digest_bytes(content).removeprefix("sha256:"), len(content)
    return Statement("export", members, sizes, index.facts)


def read_export(members: Members, sink: Sink) -> Index:
    """Hand every file of an export to `sink`, proved; the index. EvidenceError at the first thing that does not
    hold."""
    index = _index(members)
    expected = index.files()
    manifest: bytes | None = None
    for name, size, chunks in members:
        if manifest is not None:
            raise EvidenceError(f"member {name!r} after {MANIFEST}, which is the last one")
        if name == MANIFEST:
            manifest = b"".join(chunks())
            continue
        item = expected.pop(name.removeprefix(CONTENT), None) if name.startswith(CONTENT) else None
        if item is None or item.size != size:
            raise EvidenceError(f"member {name!r} of {size} bytes: not announced so in {INDEX}, or there twice")
        sink(item, _proved(item, chunks()))
    if manifest is None or expected:
        raise EvidenceError(f"incomplete: without {next(iter(expected), MANIFEST)!r}")
    if parse_statement(manifest) != export_statement(index):
        raise EvidenceError(f"{MANIFEST} does not say what {INDEX} says")
    return index


def drain(item: Item, chunks: Iterator[bytes]) -> None:
    """The sink that keeps nothing: proving alone."""
    for _ in chunks:
        pass


def _index(members: Members) -> Index:
    first = next(members, None)
    if first is None or first[0] != INDEX:
        raise EvidenceError(f"an export starts with {INDEX}; found {first[0] if first else 'nothing'!r}")
    return parse_index(b"".join(first[2]()))


def _proved(item: Item, chunks: Iterator[bytes]) -> Iterator[bytes]:
    state, count = sha256(), 0
    for part in chunks:
        count += len(part)
        if count > item.size:
            break
        state.update(part)
        yield part
    if count != item.size or state.hexdigest() != item.sha256:
        raise EvidenceError(f"{item.path}: expected {item.size} bytes sha256:{item.sha256}; the carrier holds others")
