"""What a tree that a cell wrote is, against its base: leaves, changes, what was left out, what is ignored; hashed
within caps."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from .names import encode_name
from .objects import EXECUTABLE, FILE, LINK, Base, Blob, Repository, write_trees
from .pack import PackWriter, file_id, object_id
from .walk import Entry, WalkLimits, walk

UNKNOWN_OID = "0" * 40
LEFT_OUT_LISTED = 200
_IGNORE_RULES = b".gitignore"


@dataclass(frozen=True)
class SnapshotCaps:
    """How much may differ from the base: number of files and links, and bytes of new content."""

    changes: int
    changed_bytes: int


@dataclass
class Snapshot:
    """The leaves of a walked tree and what the walk met. `over` names the cap that ended the hashing; then `tree` is
    None."""

    leaves: dict[bytes, Blob] = field(default_factory=dict)
    targets: dict[bytes, bytes] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)
    left_out_counts: dict[str, int] = field(default_factory=dict)
    directories: int = 0
    hard_linked: int = 0
    total_bytes: int = 0
    changed: int = 0
    changed_bytes: int = 0
    over: str | None = None
    tree: str | None = None

    def leave_out(self, path: bytes, reason: str) -> None:
        """Count one entry that is not part of the tree; the first ones are listed by name."""
        self.left_out_counts[reason] = self.left_out_counts.get(reason, 0) + 1
        if len(self.left_out) < LEFT_OUT_LISTED:
            self.left_out.append({"path": encode_name(path), "reason": reason})


def take_snapshot(root: str, repository: Repository, base: Base, limits: WalkLimits, caps: SnapshotCaps) -> Snapshot:
    """Walk, hash and write what the base does not hold. Once a cap is passed, new content is not read any more."""
    snapshot = Snapshot()
    pack = repository.open_pack()
    taker = _Taker(snapshot, pack, base, caps)
    for entry in walk(root, limits, snapshot.leave_out):
        if entry.kind == "dir":
            snapshot.directories += 1
        elif entry.kind == "link":
            taker.take_link(entry)
        else:
            taker.take_file(entry)
    snapshot.changed += len(base.leaves.keys() - snapshot.leaves.keys())
    taker.check_caps()
    if snapshot.over is None:
        snapshot.tree = write_trees(pack, snapshot.leaves, base.known)
    repository.adopt(pack)
    return snapshot


@dataclass(frozen=True)
class _Taker:
    snapshot: Snapshot
    pack: PackWriter
    base: Base
    caps: SnapshotCaps

    def check_caps(self) -> None:
        """Note the first cap that is passed."""
        snapshot = self.snapshot
        if snapshot.over is None and snapshot.changed_bytes > self.caps.changed_bytes:
            snapshot.over = "changed_bytes"
        if snapshot.over is None and snapshot.changed > self.caps.changes:
            snapshot.over = "changes"

    def take_link(self, entry: Entry) -> None:
        target = entry.target()
        blob = Blob(LINK, object_id(b"blob", target), len(target))
        self.snapshot.leaves[entry.path] = blob
        self.snapshot.targets[entry.path] = target
        if not _same(self.base.leaves.get(entry.path), blob):
            self.snapshot.changed += 1
            self.check_caps()
        if blob.oid not in self.base.known and self.snapshot.over is None:
            self.pack.add(blob.oid, b"blob", target)

    def take_file(self, entry: Entry) -> None:
        """A file of another size than the base's is changed without being read for it; one of the same size is
        hashed."""
        snapshot = self.snapshot
        snapshot.total_bytes += entry.size
        snapshot.hard_linked += entry.links > 1
        before = self.base.leaves.get(entry.path)
        mode = EXECUTABLE if entry.executable else FILE
        if before is None or before.size != entry.size:
            self._count_content(entry)
            oid = UNKNOWN_OID if snapshot.over else self._hash(entry, counted=True)
        else:
            oid = self._hash(entry, counted=False)
            if oid == before.oid and mode != before.mode:
                snapshot.changed += 1
                self.check_caps()
        snapshot.leaves[entry.path] = Blob(mode, oid, entry.size)

    def _count_content(self, entry: Entry) -> None:
        self.snapshot.changed += 1
        self.snapshot.changed_bytes += entry.size
        self.check_caps()

    def _hash(self, entry: Entry, counted: bool) -> str:
        descriptor = entry.open()
        try:
            oid = file_id(descriptor, entry.size)
            before = self.base.leaves.get(entry.path)
            if not counted and (before is None or before.oid != oid):
                self._count_content(entry)
            if oid not in self.base.known and self.snapshot.over is None:
                self.pack.add_file(oid, entry.size, descriptor)
            return oid
        finally:
            os.close(descriptor)


def _same(old: Blob | None, new: Blob) -> bool:
    return old is not None and (old.mode, old.oid) == (new.mode, new.oid)


def changes(base: Base, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Raw listing in git's order: `{path, status, old_mode, new_mode, old, new, size}`, paths encoded; the other side
    of A and D is zeros."""
    rows = []
    for path in sorted(base.leaves.keys() | snapshot.leaves.keys()):
        old, new = base.leaves.get(path), snapshot.leaves.get(path)
        if old is not None and new is not None and (old.mode, old.oid) == (new.mode, new.oid):
            continue
        rows.append(
            {
                "path": encode_name(path),
                "status": _status(old, new),
                "old_mode": old.mode if old else "000000",
                "new_mode": new.mode if new else "000000",
                "old": old.oid if old else UNKNOWN_OID,
                "new": new.oid if new else UNKNOWN_OID,
                "size": new.size if new else None,
                "target": encode_name(snapshot.targets[path]) if path in snapshot.targets else None,
            }
        )
    return rows


def _status(old: Blob | None, new: Blob | None) -> str:
    if old is None:
        return "A"
    if new is None:
        return "D"
    return "M" if old.mode[:3] == new.mode[:3] else "T"


def ignored(repository: Repository, base: Base, paths: list[bytes], scratch: str) -> set[bytes]:
    """Which of `paths` the ignore rules of the base call ignored. The rules are read from the base's objects, never
    from the cell's tree."""
    rules = [
        path for path, blob in base.leaves.items() if path.rpartition(b"/")[2] == b".gitignore" and blob.mode != LINK
    ]
    if not rules or not paths:
        return set()
    os.mkdir(scratch)
    for path in rules:
        target = os.path.join(os.fsencode(scratch), path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "xb") as file:
            file.write(repository.git("cat-file", "blob", base.leaves[path].oid))
    output = repository.git(
        "-c",
        "core.bare=false",
        f"--work-tree={scratch}",
        "check-ignore",
        "-z",
        "--stdin",
        "--no-index",
        stdin=b"".join(b"./" + path + b"\0" for path in paths),  # `./`: a name may look like a pathspec with magic
        cwd=scratch,
        allowed=(0, 1),
    )
    return {path.removeprefix(b"./") for path in output.split(b"\0") if path}
