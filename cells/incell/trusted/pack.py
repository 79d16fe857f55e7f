"""Object ids of contents, and a writer of one pack file (gitformat-pack, version 2) for the objects that a base does
not hold.

One file instead of a file for each object: a tree of many small files costs no inodes of the scratch space.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator

_CHUNK = 1 << 20
_KINDS = {b"tree": 2, b"blob": 3}


def chunks_of(descriptor: int) -> Iterator[bytes]:
    """The content of an open file from its beginning, in pieces."""
    position = 0
    while chunk := os.pread(descriptor, _CHUNK, position):
        position += len(chunk)
        yield chunk


def object_id(kind: bytes, content: bytes) -> str:
    """The git object id of a content."""
    return hashlib.sha1(kind + b" %d\0" % len(content) + content).hexdigest()


def file_id(descriptor: int, size: int) -> str:
    """The blob id of an open file of `size` bytes; OSError when it does not have that size."""
    state = hashlib.sha1(b"blob %d\0" % size)
    read = 0
    for chunk in chunks_of(descriptor):
        read += len(chunk)
        state.update(chunk)
    if read != size:
        raise OSError(f"read {read} bytes of a file of {size}")
    return state.hexdigest()


class PackWriter:
    """Writes objects once each; `close` completes the file."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, "pack-assay.pack")
        self._file = open(self._path, "x+b")  # noqa: SIM115 (closed by close)
        self._file.write(_head(0))
        self._written: set[str] = set()

    def add(self, oid: str, kind: bytes, content: bytes) -> None:
        """Write one small object."""
        self._add(oid, kind, len(content), (content,))

    def add_file(self, oid: str, size: int, descriptor: int) -> None:
        """Write the blob of an open file whose id and size are known."""
        self._add(oid, b"blob", size, chunks_of(descriptor))

    def close(self) -> str | None:
        """Complete the file: its path, None when it holds nothing."""
        with self._file as file:
            if not self._written:
                return None
            file.seek(0)
            file.write(_head(len(self._written)))
            file.seek(0)
            state = hashlib.sha1()
            while chunk := file.read(_CHUNK):
                state.update(chunk)
            file.write(state.digest())
        return self._path

    def _add(self, oid: str, kind: bytes, size: int, chunks: Iterable[bytes]) -> None:
        if oid in self._written:
            return
        self._written.add(oid)
        self._file.write(_object_head(_KINDS[kind], size))
        compressor = zlib.compressobj(1)
        for chunk in chunks:
            self._file.write(compressor.compress(chunk))
        self._file.write(compressor.flush())


def _head(count: int) -> bytes:
    return b"PACK" + struct.pack(">II", 2, count)


def _object_head(kind: int, size: int) -> bytes:
    """Type and size: 4 bits of size in the first byte, 7 in each later one, least significant first."""
    byte, size = kind << 4 | size & 15, size >> 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    out.append(byte)
    return bytes(out)
