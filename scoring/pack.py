"""The verifier pack of a task in memory: hidden tests, other sealed files, what the gold patch touches. Post-run only.

Rules:
1. `sealed/tests/**` lies over the work directory: `sealed/tests/a/b.py` becomes `a/b.py`.
2. Everything else in `sealed/` but the gold patch goes beside the tree, in the directory that `{pack}` of the command
   names.
3. The gold patch itself never enters a verifier.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cells.errors import EvidenceError
from cells.tasks.frozen import FrozenTask
from cells.tasks.tree import EXECUTABLE, LINK, Member, open_member, tree_digest, walk_tree

_TESTS = b"tests/"
_GOLD = b"gold.patch"
_HEAD = re.compile(
    rb"^diff --git (?P<rest>.+)$|^(?:---|\+\+\+|rename (?:from|to)|copy (?:from|to)) (?P<name>[^\n\t]+)", re.M
)
_ESCAPES = {
    b"n": b"\n",
    b"t": b"\t",
    b'"': b'"',
    b"\\": b"\\",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}


@dataclass(frozen=True)
class PackFile:
    """A sealed file: path as it counts in the verifier, whether it is executable, its content, or the target of a
    link."""

    path: bytes
    executable: bool
    content: bytes
    target: bytes | None = None


@dataclass(frozen=True)
class VerifierPack:
    """What a verifier gets, and the gold patch's paths for the policy. `sha256` is over all of sealed/."""

    tests: tuple[PackFile, ...]
    beside: tuple[PackFile, ...]
    gold: frozenset[bytes]
    sha256: str


def read_pack(task: FrozenTask) -> VerifierPack:
    """The pack of a frozen task."""
    members = walk_tree(task.sealed)
    tests, beside, gold = [], [], b""
    for member in members:
        if member.path == _GOLD:
            gold = _content(task.sealed, member)
        elif member.path.startswith(_TESTS):
            tests.append(_file(task.sealed, member, member.path[len(_TESTS) :]))
        else:
            beside.append(_file(task.sealed, member, member.path))
    return VerifierPack(tuple(tests), tuple(beside), frozenset(touched_paths(gold)), tree_digest(members))


def touched_paths(patch: bytes) -> Iterator[bytes]:
    """Every path that a patch by a task's author names, in git's or in plain diff form."""
    for match in _HEAD.finditer(patch):
        if match["rest"] is not None:
            yield from _both_names(match["rest"])
        else:
            name = _unquoted(match["name"].rstrip(b"\r"))
            yield _without_prefix(name) if match[0].startswith((b"---", b"+++")) else name


def _both_names(rest: bytes) -> Iterator[bytes]:
    """`a/X b/X` of a header line; when the two names differ, other lines of the section name them."""
    quoted = re.fullmatch(rb'("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*")', rest)
    half = len(rest) // 2
    if quoted:
        yield _without_prefix(_unquoted(quoted[1]))
        yield _without_prefix(_unquoted(quoted[2]))
    elif rest[half : half + 1] == b" " and rest[2:half] == rest[half + 3 :]:
        yield rest[2:half]


def _without_prefix(name: bytes) -> bytes:
    return name[2:] if name[:2] in (b"a/", b"b/") else name


def _unquoted(name: bytes) -> bytes:
    if not (len(name) >= 2 and name.startswith(b'"') and name.endswith(b'"')):
        return name
    return re.sub(rb"\\([0-7]{3}|.)", lambda found: _unescaped(found[1]), name[1:-1])


def _unescaped(escape: bytes) -> bytes:
    return bytes([int(escape, 8)]) if len(escape) == 3 else _ESCAPES.get(escape, escape)


def _file(root: Path, member: Member, path: bytes) -> PackFile:
    if member.mode == LINK:
        return PackFile(path, False, b"", member.target)
    return PackFile(path, member.mode == EXECUTABLE, _content(root, member))


def _content(root: Path, member: Member) -> bytes:
    with open_member(os.path.join(os.fsencode(root), member.path)) as stream:
        content = stream.read()
    if len(content) != member.size:
        raise EvidenceError(f"{root}: a sealed file changed while it was read")
    return content
