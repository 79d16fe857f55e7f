"""Reads post/tree.tar.zst member by member, in memory: nothing is ever extracted, and no name becomes a path of the
host."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import zstandard

from cells.errors import EvidenceError


def regular_files(archive: bytes, max_bytes: int = 256 << 20) -> Iterator[tuple[bytes, bytes]]:
    """(path, content) of the regular files of an archive, up to `max_bytes` of content; EvidenceError when it is
    torn."""
    left = max_bytes
    try:
        with (
            zstandard.ZstdDecompressor().stream_reader(io.BytesIO(archive)) as stream,
            tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as tar,
        ):
            for member in tar:
                reader = tar.extractfile(member) if member.isreg() else None
                left -= member.size
                if left < 0:
                    return
                if reader is not None:
                    yield member.name.encode("utf-8", "surrogateescape"), reader.read()
    except tarfile.ReadError:
        return  # an archive that its cap cut has no end; what came before it is whole
    except (zstandard.ZstdError, OSError) as error:
        raise EvidenceError(f"post/tree.tar.zst: cannot be read ({error})") from error
