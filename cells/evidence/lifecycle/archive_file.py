"""The archive: one deterministic .tar.zst of an export, and a reader that walks its members itself.

Rules (30-evidence 44; E "tar"):
1. Order: export.json, the content sorted by carrier name, manifest.json last. Owner 0, time 0, fixed modes, one zstd
   frame with
   a checksum, one thread: the same study and library give the same bytes.
2. The reader admits plain files only, each announced by export.json with its size, each once; nothing is extracted
   by tarfile.
   No link, device, sparse member, `..` or absolute name exists for it: the first one ends the reading.
3. Nothing may follow the frame, and the frame must end.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import zstandard

from cells.errors import EvidenceError
from cells.evidence.fs import CHUNK, FileSystem
from cells.evidence.lifecycle.export_index import CONTENT, INDEX, INDEX_LIMIT, Index, is_carrier
from cells.evidence.lifecycle.proof import Members, drain, export_statement, read_export
from cells.evidence.manifest import MANIFEST, MANIFEST_LIMIT, decode_name
from cells.evidence.problem import Problem

SUFFIX = ".tar.zst"
LEVEL = 10
_MAGIC = b"\x28\xb5\x2f\xfd"


def write_archive(destination: Path, index: Index, source: Path, fs: FileSystem) -> None:
    """Write the archive of a directory whose entries are those of `index`, and prove it by reading it back.

    EvidenceError when it cannot be written, or when a file changed in between; then nothing is left.
    """
    try:
        _write(destination, index, source, fs)
        read_export(archive_members(destination), drain)
    except (OSError, ValueError) as error:
        destination.unlink(missing_ok=True)
        raise EvidenceError(f"{destination}: cannot be written, or its source shrank ({error})") from error
    except EvidenceError:
        destination.unlink(missing_ok=True)
        raise


def archive_members(path: Path) -> Members:
    """The members of an archive in order; EvidenceError at the first thing that is no plain file of ours."""
    with path.open("rb") as raw:
        if raw.read(4) != _MAGIC:
            raise EvidenceError(f"{path}: neither a zstd archive nor a directory of evidence")
        raw.seek(0)
        frame = _Frame(raw)
        try:
            with tarfile.open(fileobj=io.BufferedReader(frame, CHUNK), mode="r|") as archive:
                for member in archive:
                    yield _checked(archive, member, path)
            frame.finish()
        except (tarfile.TarError, zstandard.ZstdError, OSError, EOFError) as error:
            raise EvidenceError(f"{path}: not a whole archive ({type(error).__name__}: {error})") from error


def verify_archive(path: Path) -> tuple[list[Problem], int, dict[str, Any]]:
    """Check an archive: its carrier, then what it carries, unpacked to a private temporary directory. (problems,
    bundles, facts)"""
    from cells.evidence.lifecycle.restore import check_unpacked, unpack

    with tempfile.TemporaryDirectory(prefix="assay-verify-") as directory:
        place = Path(directory) / "content"
        try:
            index = unpack(archive_members(path), place)
        except EvidenceError as error:
            return [Problem("", "archive", str(error))], 0, {}
        problems, checked = check_unpacked(place, index)
        return problems, checked, {"authenticity": index.facts}


def _write(destination: Path, index: Index, source: Path, fs: FileSystem) -> None:
    tree = fs.tree(source)
    try:
        with destination.open("xb") as raw:
            compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=False)
            with compressor.stream_writer(raw, closefd=False) as stream:
                with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
                    _add(archive, INDEX, index.to_bytes())
                    for name, item in sorted(index.files().items()):
                        handle = tree.open(decode_name(item.path))
                        try:
                            with io.BufferedReader(_Counted(fs, handle), CHUNK) as content:
                                archive.addfile(_header(CONTENT + name, item.size), content)
                        finally:
                            fs.close(handle)
                    _add(archive, MANIFEST, export_statement(index).to_bytes())
    finally:
        tree.close()


def _checked(
    archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path
) -> tuple[str, int, Callable[[], Iterator[bytes]]]:
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.pax_headers or not is_carrier(member.name):
        raise EvidenceError(
            f"{path}: member {member.name!r} of type {member.type!r}; only plain files of ours are admitted"
        )
    limits = {INDEX: INDEX_LIMIT, MANIFEST: MANIFEST_LIMIT}
    if member.size > limits.get(member.name, member.size):
        raise EvidenceError(f"{path}: member {member.name!r} has {member.size} bytes, allowed {limits[member.name]}")

    def chunks() -> Iterator[bytes]:
        content = archive.extractfile(member)
        if content is None:
            raise EvidenceError(f"{path}: member {member.name!r} has no content")
        while part := content.read(CHUNK):
            yield part

    return member.name, member.size, chunks


def _header(name: str, size: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode, header.mtime = size, 0o440, 0
    return header


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_header(name, len(content)), io.BytesIO(content))


class _Counted(io.RawIOBase):
    """A handle of the seam as a raw stream."""

    def __init__(self, fs: FileSystem, handle: int) -> None:
        self._fs, self._handle = fs, handle

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._fs.read(self._handle, len(buffer))
        buffer[: len(part)] = part
        return len(part)


class _Frame(io.RawIOBase):
    """One zstd frame and nothing after it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._ready = raw, b""
        self._frame = zstandard.ZstdDecompressor().decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._frame.eof:
            part = self._raw.read(1 << 16)
            if not part:
                raise EOFError("the compressed frame does not end")
            self._ready = self._frame.decompress(part)
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def finish(self) -> None:
        """Read what is left of the frame; OSError when something follows it."""
        buffer = bytearray(1 << 16)
        while self.readinto(buffer):
            pass
        if self._frame.unused_data or self._raw.read(1):
            raise OSError("bytes after the end of the archive")
