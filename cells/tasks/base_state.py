"""The base state of a task: the tree that an agent starts from, read from repo/ or repo.tar without trusting either.

Rules:
1. A base state is regular files and links that stay inside it; `.git` anywhere in it is refused (no history travels).
2. An archive is walked member by member and never extracted: absolute names, `..`, hard links, devices, sparse files,
   and a name given twice are refused; sizes and counts are capped.
3. The git tree id of a base state is computed here, without git: an image that was built must show the same one.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from cells.tasks.tree import (
    CAPS,
    EXECUTABLE,
    FILE,
    LINK,
    TreeCaps,
    TreeProblem,
    check_link,
    open_member,
    walk_tree,
)

_TREE = 0o40000
_Level = dict[bytes, Union[tuple[int, bytes], "_Level"]]


@dataclass(frozen=True)
class BaseEntry:
    """One file of the base state; `mode` is git's, `content` is a file's bytes or a link's target."""

    path: bytes
    mode: int
    content: bytes


def entries_of_directory(root: Path, caps: TreeCaps = CAPS) -> Iterator[BaseEntry]:
    """The entries below repo/, sorted by path bytes. TreeProblem for what a base state may not hold."""
    for member in walk_tree(root, caps):
        check_base_name(member.path)
        if member.mode == LINK:
            check_link(member.path, member.target)
            yield BaseEntry(member.path, LINK, member.target)
            continue
        with open_member(os.path.join(os.fsencode(root), member.path)) as stream:
            yield BaseEntry(member.path, member.mode, stream.read())


def entries_of_archive(archive: Path, caps: TreeCaps = CAPS) -> Iterator[BaseEntry]:
    """The entries of repo.tar (compressed or not), in its order. TreeProblem for what a base state may not hold."""
    seen: set[bytes] = set()
    total = 0
    with open_member(os.fsencode(archive)) as stream, _opened(archive, stream) as tar:
        for member in _members(tar, archive):
            path = _archived_path(member)
            if member.isdir() or not path:
                continue
            if path in seen:
                raise TreeProblem(path, "stands twice in the archive")
            seen.add(path)
            total += member.size
            if len(seen) > caps.members or member.size > caps.file_bytes or total > caps.total_bytes:
                raise TreeProblem(path, f"the archive holds more than is allowed ({caps})")
            yield _archived_entry(tar, member, path)


def check_base_name(path: bytes) -> None:
    """TreeProblem for a path that no base state may hold."""
    if any(part.lower() == b".git" for part in path.split(b"/")):
        raise TreeProblem(path, "a base state is a plain tree; remove .git (its history could hold the answer)")


def git_tree_id(entries: Iterable[BaseEntry]) -> str:
    """The id (40 hex characters) of the git tree that holds exactly these entries (git's object format, SHA-1)."""
    root: _Level = {}
    for entry in entries:
        *parents, name = entry.path.split(b"/")
        level = root
        for parent in parents:
            child = level.setdefault(parent, {})
            if not isinstance(child, dict):
                raise TreeProblem(entry.path, "lies below something that is not a directory")
            level = child
        if name in level:
            raise TreeProblem(entry.path, "is both a file and a directory, or stands twice")
        level[name] = (entry.mode, _object_id(b"blob", entry.content))
    return _tree_id(root).hex()


def _tree_id(level: _Level) -> bytes:
    rows = []
    for name, child in level.items():
        if isinstance(child, dict):
            mode, identity = _TREE, _tree_id(child)
        else:
            mode, identity = child
        order = name + b"/" if mode == _TREE else name
        rows.append((order, b"%o %s\0" % (mode, name) + identity))
    return _object_id(b"tree", b"".join(row for _, row in sorted(rows)))


def _object_id(kind: bytes, content: bytes) -> bytes:
    return hashlib.sha1(b"%s %d\0" % (kind, len(content)) + content, usedforsecurity=False).digest()


def _opened(archive: Path, stream: object) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=stream, mode="r:*", errors="surrogateescape")  # type: ignore[call-overload, no-any-return]
    except tarfile.TarError as error:
        raise TreeProblem(os.fsencode(archive.name), f"cannot be read as a tar archive: {error}") from error


def _members(tar: tarfile.TarFile, archive: Path) -> Iterator[tarfile.TarInfo]:
    try:
        yield from tar
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TreeProblem(os.fsencode(archive.name), f"cannot be read as a tar archive: {error}") from error


def _archived_path(member: tarfile.TarInfo) -> bytes:
    name = member.name.encode("utf-8", "surrogateescape")
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if name.startswith(b"/") or b".." in parts:
        raise TreeProblem(name, "absolute or upward name in the archive")
    path = b"/".join(parts)
    check_base_name(path)
    return path


def _archived_entry(tar: tarfile.TarFile, member: tarfile.TarInfo, path: bytes) -> BaseEntry:
    if member.issym():
        target = member.linkname.encode("utf-8", "surrogateescape")
        check_link(path, target)
        return BaseEntry(path, LINK, target)
    if not member.isreg() or member.sparse is not None:
        raise TreeProblem(path, "only plain files, directories and symbolic links are allowed in the archive")
    try:
        stream = tar.extractfile(member)
        content = b"" if stream is None else stream.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise TreeProblem(path, f"cannot be read from the archive: {error}") from error
    return BaseEntry(path, EXECUTABLE if member.mode & 0o100 else FILE, content)
