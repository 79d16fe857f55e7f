"""Digests and canonical bytes: the one place that decides what is hashed.

A digest is written `sha256:<64 hex>`. Canonical JSON is RFC 8785 (`rfc8785` package: refuses NaN and integers beyond
2^53).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, Any

import rfc8785

PREFIX = "sha256:"
_CHUNK = 1 << 20


def digest_bytes(content: bytes) -> str:
    """`sha256:<hex>` of the bytes."""
    return PREFIX + hashlib.sha256(content).hexdigest()


def digest_stream(stream: IO[bytes]) -> str:
    """`sha256:<hex>` of what is left in a binary stream."""
    state = hashlib.sha256()
    while chunk := stream.read(_CHUNK):
        state.update(chunk)
    return PREFIX + state.hexdigest()


def digest_file(path: Path) -> str:
    """`sha256:<hex>` of a file of our own (never of a path that a cell could have written)."""
    with path.open("rb") as stream:
        return digest_stream(stream)


def canonical_json(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value. Raises `rfc8785.CanonicalizationError` for what has no canonical form."""
    return rfc8785.dumps(value)


def digest_json(value: Any) -> str:
    """Digest of the canonical JSON of a value."""
    return digest_bytes(canonical_json(value))


def short(digest: str, length: int = 12) -> str:
    """The first hex characters of a digest, for names of directories and images; identity stays the whole digest."""
    return digest.removeprefix(PREFIX)[:length]
