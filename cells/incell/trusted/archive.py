"""Deterministic tar stream of a walked tree: names as bytes, no owner, no time, no mode but the executable bit.

Format: ustar headers with the GNU long-name and long-link entries (types `L` and `K`), which every tar reader knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from .pack import chunks_of
from .walk import Entry, WalkLimits, walk

BLOCK = 512
_TYPES = {"file": b"0", "link": b"2", "dir": b"5"}


class ArchiveFull(Exception):
    """The archive would exceed its cap."""


def tar_parts(root: str, limits: WalkLimits, cap: int) -> Iterator[bytes]:
    """The archive in pieces; ArchiveFull before the first entry that would carry it over `cap` bytes, and the pieces
    so far stay valid."""
    written = 0
    for entry in walk(root, limits, lambda path, reason: None):
        target = entry.target() if entry.kind == "link" else b""
        head = _header(entry, target)
        body = entry.size if entry.kind == "file" else 0
        written += len(head) + body + -body % BLOCK
        if written > cap:
            raise ArchiveFull
        yield head
        if body:
            yield from _content(entry)
    yield b"\0" * (2 * BLOCK)


def _content(entry: Entry) -> Iterator[bytes]:
    descriptor = entry.open()
    try:
        if os.fstat(descriptor).st_size != entry.size:
            raise OSError(f"{entry.path!r} changed its size while it was read")
        yield from chunks_of(descriptor)
    finally:
        os.close(descriptor)
    yield b"\0" * (-entry.size % BLOCK)


def _header(entry: Entry, target: bytes) -> bytes:
    name = entry.path + b"/" if entry.kind == "dir" else entry.path
    mode = 0o755 if entry.kind == "dir" or entry.executable else 0o644
    size = entry.size if entry.kind == "file" else 0
    long = b"".join(_long(kind, text) for kind, text in ((b"L", name), (b"K", target)) if len(text) > 100)
    return long + _block(name[:100], mode, size, _TYPES[entry.kind], target[:100])


def _long(kind: bytes, text: bytes) -> bytes:
    body = text + b"\0"
    return _block(b"././@LongLink", 0o644, len(body), kind, b"") + body + b"\0" * (-len(body) % BLOCK)


def _block(name: bytes, mode: int, size: int, kind: bytes, target: bytes) -> bytes:
    fields = (
        name.ljust(100, b"\0"),
        b"%07o\0" % mode,
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        b"%011o\0" % size,
        b"%011o\0" % 0,
        b" " * 8,
        kind,
        target.ljust(100, b"\0"),
        b"ustar  \0",
    )
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]
