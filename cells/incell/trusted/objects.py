"""Git objects of a tree that a cell wrote, made without the cell's .git and without running anything that its files
name.

Rules (30-evidence C3):
1. The repository is ours: made anew in scratch space, its objects borrow from the collector's base by alternates, its
   attributes undo every filter.
2. Blobs and trees are hashed here; git runs only to list, to compare, and to apply in an index of its own. It never
   gets a work tree.
3. Only what the base does not hold is written. What is unchanged is proved by its content, never by a time.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field

from .pack import PackWriter, object_id

_ATTRIBUTES = b"* -filter -text -ident -working-tree-encoding !eol !diff !merge !whitespace\n"
_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tbare = true
\tfsmonitor =
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tautocrlf = false
\tfileMode = true
\tsymlinks = true
\tignoreCase = false
\tprecomposeUnicode = false
\tprotectNTFS = false
\tprotectHFS = false
\tquotePath = true
[diff]
\trenames = false
[gc]
\tauto = 0
"""
_CHUNK = 1 << 20
LINK, FILE, EXECUTABLE, TREE = "120000", "100644", "100755", "40000"


class GitFailed(Exception):
    """A git command of ours ended with an error; the message holds its stderr."""


@dataclass(frozen=True)
class Blob:
    """A leaf of a tree: git mode and object id; `size` in bytes where it is known."""

    mode: str
    oid: str
    size: int | None = None


@dataclass(frozen=True)
class Base:
    """The base tree: leaves by path, and every object id that the base holds."""

    tree: str
    leaves: dict[bytes, Blob]
    known: frozenset[str]


@dataclass
class Repository:
    """A bare repository in `scratch` that borrows the objects of `base_git`."""

    scratch: str
    base_git: str
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            os.makedirs(os.path.join(self.scratch, name))
        self._put("HEAD", b"ref: refs/heads/none\n")
        self._put("config", _CONFIG)
        self._put("info/attributes", _ATTRIBUTES)
        self._put("objects/info/alternates", os.fsencode(os.path.join(self.base_git, "objects")) + b"\n")
        self.environment = git_environment(self.scratch)

    def _put(self, name: str, content: bytes) -> None:
        with open(os.path.join(self.scratch, name), "xb") as file:
            file.write(content)

    def git(
        self, *arguments: str, stdin: bytes | None = None, cwd: str | None = None, allowed: tuple[int, ...] = (0,)
    ) -> bytes:
        """stdout of one git command; GitFailed when its exit status is not an allowed one."""
        done = subprocess.run(
            ("git", *arguments),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            env=self.environment,
            cwd=cwd or self.scratch,
        )
        if done.returncode not in allowed:
            complaint = done.stderr[-2000:].decode("utf-8", "replace")
            raise GitFailed(f"git {arguments[0]}: exit {done.returncode}: {complaint}")
        return done.stdout

    def popen(
        self, *arguments: str, stdin: int, stdout: int, stderr: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """A running git command."""
        return subprocess.Popen(
            ("git", *arguments), stdin=stdin, stdout=stdout, stderr=stderr, env=self.environment, cwd=self.scratch
        )

    def read_base(self, tree: str) -> Base:
        """Every leaf of the base tree with its size, and the ids of all its objects."""
        leaves: dict[bytes, Blob] = {}
        known = {tree}
        for record in self.git("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", tree).split(b"\0"):
            if not record:
                continue
            head, path = record.split(b"\t", 1)
            mode, kind, oid, size = head.decode("ascii").split()
            known.add(oid)
            if kind != "tree":
                leaves[path] = Blob(mode, oid, None if size == "-" else int(size))
        return Base(tree, leaves, frozenset(known))

    def open_pack(self) -> PackWriter:
        """Where new objects are written; nothing sees them before `adopt`."""
        return PackWriter(os.path.join(self.scratch, "objects", "pack"))

    def adopt(self, pack: PackWriter) -> None:
        """Make the objects of a pack readable."""
        path = pack.close()
        if path is not None:
            self.git("index-pack", path)


def git_environment(git_dir: str) -> dict[str, str]:
    """The whole environment of a git command of ours: no configuration but that of the repository."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_DIR": git_dir,
        "GIT_INDEX_FILE": os.path.join(git_dir, "index"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def write_trees(pack: PackWriter, leaves: dict[bytes, Blob], known: frozenset[str]) -> str:
    """Write the tree objects above `leaves` that are not known yet; the id of the root tree."""
    directories: dict[bytes, list[tuple[bytes, bytes, str, str]]] = {b"": []}
    for path, blob in leaves.items():
        parent, name = _split(path)
        _ensure(directories, parent)
        directories[parent].append((name, name, blob.mode, blob.oid))
    root = ""
    for path in sorted(directories, key=lambda directory: -directory.count(b"/") if directory else 1):
        content = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for _, name, mode, oid in sorted(directories[path])
        )
        root = object_id(b"tree", content)
        if root not in known:
            pack.add(root, b"tree", content)
        if path:
            parent, name = _split(path)
            directories[parent].append((name + b"/", name, TREE, root))
    return root


def _split(path: bytes) -> tuple[bytes, bytes]:
    parent, _, name = path.rpartition(b"/")
    return parent, name


def _ensure(directories: dict[bytes, list[tuple[bytes, bytes, str, str]]], path: bytes) -> None:
    while path not in directories:
        directories[path] = []
        path = _split(path)[0]
