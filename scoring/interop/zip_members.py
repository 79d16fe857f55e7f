"""Members of a ZIP archive by name, stored, deflated or as Zstandard (method 93), which `zipfile` does not know yet.

Rules: PKWARE APPNOTE 6.3, 4.3.7 (local header) and 4.4.5 (methods). A member is read whole or refused, never beyond
`MAX_BYTES`, and its checksum is proved.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections import Counter
from pathlib import Path

from cells.errors import InputFileError
from scoring.interop.reading import MAX_BYTES, Field, document_of, read_bytes

_ZSTANDARD = 93
_LOCAL_HEADER = struct.Struct("<4s22xHH")


class ZipMembers:
    """The members of an archive. InputFileError for what is no archive, or names a member twice."""

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self._content = read_bytes(path)
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(self._content))
        except (zipfile.BadZipFile, ValueError) as error:
            raise InputFileError(self.file, f"not a whole ZIP archive: {error}") from error
        self.names = self._archive.namelist()
        twice = [name for name, times in Counter(self.names).items() if times > 1]
        if twice:
            raise InputFileError(self.file, "a member that stands twice", key=twice[0])

    @property
    def content(self) -> bytes:
        """The bytes of the archive."""
        return self._content

    def document(self, name: str) -> Field:
        """The JSON object that a member is; its fields are named after it."""
        if name not in self.names:
            raise InputFileError(self.file, "missing", key=name)
        return document_of(self._read(name), f"{self.file}: {name}")

    def _read(self, name: str) -> bytes:
        member = self._archive.getinfo(name)
        if member.file_size > MAX_BYTES:
            raise InputFileError(self.file, f"{member.file_size} bytes, allowed {MAX_BYTES}", key=name)
        try:
            content = self._zstandard(member) if member.compress_type == _ZSTANDARD else self._archive.read(member)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, struct.error, zlib.error) as error:
            raise InputFileError(self.file, f"cannot be unpacked: {error}", key=name) from error
        if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
            raise InputFileError(self.file, "not what the archive's directory says (size or checksum)", key=name)
        return content

    def _zstandard(self, member: zipfile.ZipInfo) -> bytes:
        import zstandard

        begin = member.header_offset
        magic, name_size, extra_size = _LOCAL_HEADER.unpack_from(self._content, begin)
        if magic != b"PK\x03\x04":
            raise zipfile.BadZipFile("no local header")
        begin += _LOCAL_HEADER.size + name_size + extra_size
        packed = io.BytesIO(self._content[begin : begin + member.compress_size])
        try:
            with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
                return stream.read(member.file_size + 1)
        except zstandard.ZstdError as error:
            raise zipfile.BadZipFile(str(error)) from error
