"""Files of a post-run step: written once, adopted when they are there with the same bytes, taken away when a step died.

Rules:
1. A step is whole when its last file exists; that file holds digests of the others, or follows from them.
2. What a step derives from earlier files alone has the same bytes every time: a file that differs is EvidenceError.
3. What a step measured cannot be made again: without the step's last file its files are discarded, and it runs anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from cells.artifacts import Role, Writer
from cells.attempt import SealedAttempt
from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json


def put(sealed: SealedAttempt, name: str, content: bytes, writer: Writer) -> None:
    """Write a derived file, or adopt the one that is there. EvidenceError when that one differs."""
    if not sealed.has(name):
        sealed.write(name, content, writer)
    elif sealed.read(name, Role.AUDIT) != content:
        raise EvidenceError(f"{sealed.root / name}: exists and is not what this step makes of the files before it")


def put_json(sealed: SealedAttempt, name: str, document: object, writer: Writer) -> None:
    """`put` of a document in canonical form."""
    put(sealed, name, canonical_json(document), writer)


def discard(sealed: SealedAttempt, names: Iterable[str], writer: Writer) -> None:
    """Take away what a step that died before its last file left behind."""
    for name in names:
        if sealed.has(name):
            sealed.discard(name, writer)
