"""A file system in memory that remembers what is durable: cut its power, and only what was fsynced is sure to be left.

Rules (a pessimistic reading of POSIX, stricter than ext4):
1. File bytes are durable from the fsync of a handle of that file. Bytes that were not fsynced may be there, absent,
   cut short, or have
   holes of zeros (512-byte blocks).
2. A change of a directory (create, rename, unlink, link, mkdir, rmdir) is durable from the fsync of a directory that
   it touches;
   before that any subset of the pending changes may be there, in particular later ones without earlier ones. A
   rename is one change.
3. An fsync of a file does not make its name durable.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cells.evidence.fs import Entry, Kind

_BLOCK = 512


@dataclass
class _Node:
    kind: Kind
    mode: int
    number: int
    data: bytes = b""
    durable: bytes = b""
    names: dict[str, int] = field(default_factory=dict)
    durable_names: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Change:
    """A pending change: (directory, name) -> inode or None (removed); several pairs are one atomic change."""

    pairs: tuple[tuple[int, str, int | None], ...]
    nodes: frozenset[int]
    """inodes that it moves or removes: later changes of the same inode need it"""


class ModelTree:
    """A directory of the model."""

    def __init__(self, fs: ModelFileSystem, root: Path) -> None:
        self._fs, self._root = fs, root

    def entries(self, name: str = "") -> list[Entry]:
        prefix = f"{name}/" if name else ""
        node = self._fs.find(self._root / name if name else self._root)
        if node is None or node.kind is not Kind.DIRECTORY:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        return [self._fs.entry(prefix + key, node.names[key]) for key in sorted(node.names)]

    def status(self, name: str = "") -> Entry:
        node = self._fs.find(self._root / name if name else self._root)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._fs.entry(name, node.number)

    def open(self, name: str) -> int:
        return self._fs.open_plain(self._root / name)

    def target(self, name: str) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)

    def close(self) -> None:
        return


class ModelFileSystem:
    """A `FileSystem` in memory with power loss."""

    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}
        self._pending: list[_Change] = []
        self._handles: dict[int, list[int]] = {}
        self._next_handle = 3
        self._root = self._new(Kind.DIRECTORY, 0o750).number

    def crash(self, rng: Random) -> ModelFileSystem:
        """What is left after the power was cut at this moment, for one roll of the dice."""
        after = ModelFileSystem()
        after._nodes = {}
        for number, node in self._nodes.items():
            data = node.durable if node.data == node.durable else _torn(node.durable, node.data, rng)
            names = dict(node.durable_names)
            after._nodes[number] = _Node(node.kind, node.mode, number, data, data, names, names)
        for change in self._pending:
            if rng.getrandbits(1):
                _apply(after._nodes, change, durable=True)
        for node in after._nodes.values():
            node.names = dict(node.durable_names)
        after._root = self._root
        return after

    def tree(self, root: Path) -> ModelTree:
        if (node := self.find(root)) is None or node.kind is not Kind.DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(root))
        return ModelTree(self, root)

    def status(self, path: Path) -> Entry | None:
        node = self.find(path)
        return None if node is None else self.entry(path.name, node.number)

    def create(self, path: Path, mode: int = 0o440) -> int:
        parent = self._parent(path)
        if path.name in parent.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        node = self._new(Kind.FILE, mode)
        self._change((parent.number, path.name, node.number))
        return self._handle(node.number)

    def open_append(self, path: Path, mode: int = 0o640) -> int:
        node = self.find(path)
        if node is None:
            return self.create(path, mode)
        handle = self._handle(node.number)
        self._handles[handle][1] = len(node.data)
        return handle

    def open_plain(self, path: Path) -> int:
        node = self.find(path)
        if node is None or node.kind is not Kind.FILE:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._handle(node.number)

    def read(self, handle: int, size: int) -> bytes:
        number, offset = self._handles[handle]
        part = self._nodes[number].data[offset : offset + size]
        self._handles[handle][1] += len(part)
        return part

    def write(self, handle: int, content: bytes) -> int:
        number, _ = self._handles[handle]
        self._nodes[number].data += content
        return len(content)

    def seek(self, handle: int, offset: int) -> None:
        self._handles[handle][1] = offset

    def truncate(self, handle: int, size: int) -> None:
        node = self._nodes[self._handles[handle][0]]
        node.data = node.data[:size]

    def size(self, handle: int) -> int:
        return len(self._nodes[self._handles[handle][0]].data)

    def fsync(self, handle: int) -> None:
        node = self._nodes[self._handles[handle][0]]
        node.durable = node.data

    def close(self, handle: int) -> None:
        del self._handles[handle]

    def make_directory(self, path: Path, mode: int = 0o750) -> None:
        parent = self._parent(path)
        if path.name in parent.names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self._change((parent.number, path.name, self._new(Kind.DIRECTORY, mode).number))

    def sync_directory(self, path: Path) -> None:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        touched = [any(pair[0] == node.number for pair in change.pairs) for change in self._pending]
        needed = {number for change, hit in zip(self._pending, touched, strict=True) if hit for number in change.nodes}
        kept: list[_Change] = []
        for change, hit in zip(self._pending, touched, strict=True):
            if hit or change.nodes & needed:
                _apply(self._nodes, change, durable=True)
            else:
                kept.append(change)
        self._pending = kept

    def move_new(self, source: Path, destination: Path) -> None:
        if self.find(destination) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(destination))
        self.replace(source, destination)

    def replace(self, source: Path, destination: Path) -> None:
        node = self.find(source)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        old, new = self._parent(source), self._parent(destination)
        self._change((old.number, source.name, None), (new.number, destination.name, node.number))

    def link(self, source: Path, destination: Path) -> None:
        node, parent = self.find(source), self._parent(destination)
        if node is None or destination.name in parent.names:
            code = errno.ENOENT if node is None else errno.EEXIST
            raise OSError(code, os.strerror(code), str(destination))
        self._change((parent.number, destination.name, node.number))

    def make_link(self, path: Path, target: str) -> None:
        raise OSError(errno.EPERM, "the model has no links", str(path))

    def unlink(self, path: Path) -> None:
        parent = self._parent(path)
        if path.name not in parent.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._change((parent.number, path.name, None))

    def remove_directory(self, path: Path) -> None:
        node = self.find(path)
        if node is None or node.names:
            code = errno.ENOENT if node is None else errno.ENOTEMPTY
            raise OSError(code, os.strerror(code), str(path))
        self.unlink(path)

    def set_mode(self, path: Path, mode: int) -> None:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        node.mode = mode

    def find(self, path: Path) -> _Node | None:
        """The node at an absolute path, None when there is none."""
        node = self._nodes[self._root]
        for part in path.parts[1:]:
            number = node.names.get(part)
            if number is None:
                return None
            node = self._nodes[number]
        return node

    def entry(self, name: str, number: int) -> Entry:
        """The entry of a node under a name."""
        node = self._nodes[number]
        links = sum(list(other.names.values()).count(number) for other in self._nodes.values() if other.names)
        return Entry(name, node.kind, len(node.data), max(links, 1), 1, number, node.mode, 0)

    def _parent(self, path: Path) -> _Node:
        parent = self.find(path.parent)
        if parent is None or parent.kind is not Kind.DIRECTORY:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
        return parent

    def _new(self, kind: Kind, mode: int) -> _Node:
        node = _Node(kind, mode, len(self._nodes) + 1)
        self._nodes[node.number] = node
        return node

    def _handle(self, number: int) -> int:
        self._next_handle += 1
        self._handles[self._next_handle] = [number, 0]
        return self._next_handle

    def _change(self, *pairs: tuple[int, str, int | None]) -> None:
        moved = {self._nodes[directory].names.get(name) for directory, name, _ in pairs}
        nodes = frozenset({number for number in moved if number} | {number for *_, number in pairs if number})
        change = _Change(pairs, nodes)
        _apply(self._nodes, change, durable=False)
        self._pending.append(change)


def _apply(nodes: dict[int, _Node], change: _Change, *, durable: bool) -> None:
    for directory, name, number in change.pairs:
        names = nodes[directory].durable_names if durable else nodes[directory].names
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


def _torn(durable: bytes, written: bytes, rng: Random) -> bytes:
    """What the disk holds of bytes that were not fsynced."""
    fate = rng.randrange(4)
    if fate == 0:
        return durable
    if fate == 1:
        return written
    if fate == 2:
        return written[: rng.randint(min(len(durable), len(written)), max(len(durable), len(written)))]
    start = len(durable) if written.startswith(durable) else 0
    blocks = bytearray(written)
    for block in range(start - start % _BLOCK, len(blocks), _BLOCK):
        if rng.getrandbits(1):
            low, high = max(block, start), min(block + _BLOCK, len(blocks))
            blocks[low:high] = bytes(high - low)
    return bytes(blocks)
