"""Bodies by content: cut where a JSON list has a boundary, stored once, joined by a tree of digests in one append-only
pack.

Rules:
1. A body of up to `INLINE` bytes stands in its row; a longer one is cut into chunks that repeat across turns, because a
   later
   request repeats the messages of an earlier one byte for byte.
2. The chunks' digests form nodes, cut by content too; so a grown list shares all nodes but the last ones of each level.
3. A record of the pack is `<kind> <sha256> <encoding> <size> <stored size>\\n<stored bytes>\\n`; nodes are hashed with
   a tag of their own,
   so that no body can pass for a node. A digest is written once.
4. The reader believes nothing: every chunk, every node and the whole body are hashed again; a torn last record is left
   out and counted.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import zstandard

from cells.errors import EvidenceError
from cells.evidence.digest import PREFIX, digest_bytes
from cells.recording.wire import BodyRef

PACK = "wire/bodies.pack"
"""The pack of an attempt, below live/."""
INLINE = 1024
MIN_CHUNK, MAX_CHUNK = 256, 32 * 1024
_SHORT = 16
"""Bytes of a digest by which a node names a child; the digest of the whole body is what is believed."""
_NODE_TAG = b"assay-node\0"
_LEVEL, _WINDOW = 3, 1 << 20
_MAX_CHILDREN = 64
_MAX_KNOWN = 200_000
_MAX_BODY = 1 << 30
_BOUNDARY = re.compile(rb"\}(?=\s{0,32}[,\]])")
_HEADER = re.compile(rb"(chunk|node) ([0-9a-f]{64}) (raw|zstd) (\d{1,10}) (\d{1,10})\n")


def cut(body: bytes) -> Iterator[bytes]:
    """The chunks of a body, in order. A chunk ends where an object in a JSON list ends, unless shorter than
    `MIN_CHUNK`; never over `MAX_CHUNK`."""
    start = 0
    for match in _BOUNDARY.finditer(body):
        if match.end() - start >= MIN_CHUNK:
            yield from _slices(body, start, match.end())
            start = match.end()
    yield from _slices(body, start, len(body))


def _slices(body: bytes, start: int, end: int) -> Iterator[bytes]:
    for position in range(start, end, MAX_CHUNK):
        yield body[position : min(position + MAX_CHUNK, end)]


@dataclass(frozen=True)
class PreparedBody:
    """A body with everything computed that costs time: safe to make in another thread."""

    body: bytes
    digest: str
    chunks: tuple[tuple[bytes, bytes], ...]
    """Digest and packed bytes of each chunk; none for a body that stands in its row."""


def prepare(body: bytes) -> PreparedBody:
    """Hash and compress a body, whether it is known already or not."""
    if len(body) <= INLINE:
        return PreparedBody(body, digest_bytes(body), ())
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    chunks = tuple((hashlib.sha256(chunk).digest(), _record(b"chunk", chunk, compressor)) for chunk in cut(body))
    return PreparedBody(body, digest_bytes(body), chunks)


def _record(kind: bytes, content: bytes, compressor: zstandard.ZstdCompressor) -> bytes:
    packed = compressor.compress(content) if kind == b"chunk" else content
    encoding, stored = (b"zstd", packed) if len(packed) < len(content) else (b"raw", content)
    digest = hashlib.sha256(content).digest() if kind == b"chunk" else _node_digest(content)
    return b"%s %s %s %d %d\n%s\n" % (kind, digest.hex().encode(), encoding, len(content), len(stored), stored)


@dataclass
class PackWriter:
    """Stores bodies through `append`, which adds bytes to the pack; making them durable is the caller's part."""

    append: Callable[[bytes], None]
    size: int = 0
    """Bytes appended so far."""
    _known: dict[bytes, None] = field(default_factory=dict)
    _zstd: zstandard.ZstdCompressor = field(default_factory=lambda: zstandard.ZstdCompressor(level=_LEVEL))

    def put(self, body: bytes) -> BodyRef:
        """The reference of a body, stored when it is not there yet."""
        digest = digest_bytes(body)
        if len(body) <= INLINE:
            return _inline(body, digest)
        chunks = [self._store(b"chunk", chunk, hashlib.sha256(chunk).digest()) for chunk in cut(body)]
        return BodyRef(digest=digest, size=len(body), ref=self._root(chunks))

    def put_prepared(self, prepared: PreparedBody) -> BodyRef:
        """The same for a body that was prepared."""
        if not prepared.chunks:
            return _inline(prepared.body, prepared.digest)
        for digest, record in prepared.chunks:
            if digest not in self._known:
                self._append(digest, record)
        root = self._root([digest for digest, _ in prepared.chunks])
        return BodyRef(digest=prepared.digest, size=len(prepared.body), ref=root)

    def _root(self, level: list[bytes]) -> str:
        while len(level) > 1:
            level = [self._store(b"node", node, _node_digest(node)) for node in _nodes(level)]
        return PREFIX + level[0].hex()

    def _store(self, kind: bytes, content: bytes, digest: bytes) -> bytes:
        if digest not in self._known:
            self._append(digest, _record(kind, content, self._zstd))
        return digest

    def _append(self, digest: bytes, record: bytes) -> None:
        self.append(record)
        self.size += len(record)
        self._remember(digest)

    def _remember(self, digest: bytes) -> None:
        self._known[digest] = None
        if len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]


def _inline(body: bytes, digest: str) -> BodyRef:
    try:
        return BodyRef(digest=digest, size=len(body), inline=body.decode())
    except UnicodeDecodeError:
        return BodyRef(digest=digest, size=len(body), inline=base64.b64encode(body).decode(), base64=True)


def _node_digest(node: bytes) -> bytes:
    return hashlib.sha256(_NODE_TAG + node).digest()


def _nodes(children: list[bytes]) -> Iterator[bytes]:
    """Groups of digests, cut after one whose last byte says so (1 in 16) or at `_MAX_CHILDREN`; never a group of one
    but the last."""
    group: list[bytes] = []
    for child in children:
        group.append(child[:_SHORT])
        if len(group) > 1 and (child[-1] < 16 or len(group) == _MAX_CHILDREN):
            yield b"".join(group)
            group = []
    if group:
        yield b"".join(group)


@dataclass(frozen=True)
class PackRecord:
    """Where a record's stored bytes lie, and what its header says of them."""

    kind: bytes
    digest: bytes
    encoding: bytes
    size: int
    start: int
    end: int


@dataclass(frozen=True)
class Pack:
    """A pack that was read: where each record lies, and the bytes of a torn last record."""

    content: bytes
    records: dict[bytes, PackRecord]
    """By the first `_SHORT` bytes of the digest."""
    torn_bytes: int

    def body(self, reference: BodyRef) -> bytes:
        """The bytes of a body; `EvidenceError` when a part is missing or altered."""
        if reference.ref is None:
            body = _from_inline(reference)
        else:
            body = b"".join(self._chunks(bytes.fromhex(reference.ref.removeprefix(PREFIX))))
        if len(body) != reference.size or digest_bytes(body) != reference.digest:
            raise EvidenceError(f"body {reference.digest}: the stored bytes have another digest")
        return body

    def _chunks(self, root: bytes) -> Iterator[bytes]:
        stack, budget = [root], _MAX_BODY
        while stack:
            kind, content = self._record(stack.pop()[:_SHORT])
            budget -= len(content)
            if budget < 0:
                raise EvidenceError(f"body {root.hex()}: more than {_MAX_BODY} bytes")
            if kind == b"chunk":
                yield content
            else:
                stack.extend(content[at : at + _SHORT] for at in range(len(content) - _SHORT, -1, -_SHORT))

    def _record(self, digest: bytes) -> tuple[bytes, bytes]:
        record = self.records.get(digest)
        if record is None:
            raise EvidenceError(f"pack: record {digest.hex()} is missing")
        stored = self.content[record.start : record.end]
        content = _unpack(stored, record.size) if record.encoding == b"zstd" else stored
        found = hashlib.sha256(content).digest() if record.kind == b"chunk" else _node_digest(content)
        if found != record.digest or len(content) != record.size:
            raise EvidenceError(f"pack: record {digest.hex()} has other bytes than its digest says")
        return record.kind, content


def read_pack(content: bytes) -> Pack:
    """The records of a pack. `EvidenceError` for anything that is not a record, except an incomplete last one."""
    records: dict[bytes, PackRecord] = {}
    position = 0
    while position < len(content):
        header = _HEADER.match(content, position)
        if header is None:
            if b"\n" in content[position : position + 128]:
                raise EvidenceError(f"pack: no record at byte {position}")
            break
        end = header.end() + int(header[5])
        if end + 1 > len(content):
            break
        if content[end : end + 1] != b"\n":
            raise EvidenceError(f"pack: the record at byte {position} does not end where it says")
        digest = bytes.fromhex(header[2].decode())
        record = PackRecord(header[1], digest, header[3], int(header[4]), header.end(), end)
        records.setdefault(digest[:_SHORT], record)
        position = end + 1
    return Pack(content, records, len(content) - position)


def _unpack(stored: bytes, size: int) -> bytes:
    try:
        content = (
            zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(stored).read(min(size, MAX_CHUNK) + 1)
        )
    except zstandard.ZstdError as error:
        raise EvidenceError(f"pack: a record cannot be decompressed ({error})") from error
    return content


def _from_inline(reference: BodyRef) -> bytes:
    text = reference.inline
    if text is None:
        raise EvidenceError(f"body {reference.digest}: neither inline nor by reference")
    try:
        return base64.b64decode(text, validate=True) if reference.base64 else text.encode()
    except ValueError as error:
        raise EvidenceError(f"body {reference.digest}: inline bytes are not base64 ({error})") from error
