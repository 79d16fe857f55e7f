"""PID 1 of the collector container: holds the agent's volume, and hands out what is in it when, and only when, it is
asked.

Rules:
1. It is started before the agent and blocks on stdin; it reads nothing of the volume before a request comes.
2. Requests: `gather` (the live side's declared files), `collect` (tree archive, changes, unfiltered patch), `exit`.
   Whatever fails is
   answered with an `error` frame, and the next request is taken.
3. The volume is read-only to it, no link is followed, no file of the volume is ever executed or taken as configuration.

Answer to `collect`: one `facts` frame (JSON body), `part` frames of stream `patch` and one `end`, `part` frames of
stream `tree` and
one `end`, then `collected`. An `end` holds bytes and sha256 of the stream and whether it is complete.
"""

from __future__ import annotations

import os
import sys

if not __package__:  # run as a script in the container: this directory is the package
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(_here))
    __package__ = os.path.basename(_here)
    __import__(__package__)

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from .archive import ArchiveFull, tar_parts
from .frames import PART_BYTES, BadFrame, read_frame, write_frame
from .gather import BadPattern, GatherCaps, gather
from .names import decode_name
from .objects import Base, GitFailed, Repository
from .snapshot import Snapshot, SnapshotCaps, changes, ignored, take_snapshot
from .walk import TooManyEntries, WalkLimits

ROOT = "/in"
BASE_GIT = "/assay/collector.git"
REQUEST_BYTES = 8 << 20
LISTING_BYTES = 8 << 20
"""Names and link targets in a listing; more of them is a cap passed, as is a number of changes."""
_DIFF = ("diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--unified=3")
_DIFF_FORM = ("--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers")


def serve(requests: int, answers: int) -> int:
    """Answer requests until `exit` or the end of stdin."""
    with os.fdopen(requests, "rb", closefd=False) as stream:
        while True:
            try:
                frame = read_frame(stream, REQUEST_BYTES)
            except BadFrame as error:
                write_frame(answers, {"type": "error", "reason": "bad_request", "detail": str(error)})
                return 2
            if frame is None or frame[0].get("type") == "exit":
                return 0
            _answer(frame[0], frame[1], answers)


def _answer(request: dict[str, Any], body: bytes, answers: int) -> None:
    try:
        if request.get("type") == "gather":
            _gather(json.loads(body), answers)
        elif request.get("type") == "collect":
            with tempfile.TemporaryDirectory(prefix="assay-collect-") as scratch:
                _collect(request, scratch, answers)
        else:
            raise ValueError(f"unknown request {request.get('type')!r}")
    except (OSError, ValueError, KeyError, TypeError, GitFailed, BadPattern, TooManyEntries) as error:
        detail = f"{type(error).__name__}: {error}"[:2000]
        write_frame(answers, {"type": "error", "reason": "request_failed", "detail": detail})


def _gather(wanted: dict[str, Any], answers: int) -> None:
    caps = GatherCaps(**wanted.get("caps", {}))
    gather(wanted["files"], caps, WalkLimits(), lambda header, content: write_frame(answers, header, content))


def _collect(request: dict[str, Any], scratch: str, answers: int) -> None:
    root = request.get("root", ROOT)
    limits = WalkLimits(**request.get("walk", {}))
    repository = Repository(os.path.join(scratch, "git"), request.get("base_git", BASE_GIT))
    base = repository.read_base(request["base_tree"])
    try:
        caps = SnapshotCaps(request["changes"], request["changed_bytes"])
        snapshot = take_snapshot(root, repository, base, limits, caps)
    except TooManyEntries:
        facts: dict[str, Any] = {"base_tree": base.tree, "tree": None, "over_cap": "entries", "changes": []}
    else:
        facts = _facts(snapshot, base, request["changes"])
        _mark_ignored(facts, repository, base, os.path.join(scratch, "ignore"))
    write_frame(answers, {"type": "facts"}, json.dumps(facts).encode("ascii"))
    _send_patch(repository, request, facts, answers)
    _send_tree(root, limits, request["tree_bytes"], answers)
    write_frame(answers, {"type": "collected"})


def _mark_ignored(facts: dict[str, Any], repository: Repository, base: Base, scratch: str) -> None:
    """Say of each new file whether the base ignores it; where git cannot say, none is, and that is said."""
    added = [decode_name(row["path"]) for row in facts["changes"] if row["status"] == "A"]
    try:
        hidden = ignored(repository, base, added, scratch)
    except GitFailed:
        hidden, facts["ignored_known"] = set(), False
    for row in facts["changes"]:
        row["ignored"] = decode_name(row["path"]) in hidden


def _facts(snapshot: Snapshot, base: Base, changes_cap: int) -> dict[str, Any]:
    rows = changes(base, snapshot)
    if sum(len(row["path"]) + len(row["target"] or "") for row in rows[:changes_cap]) > LISTING_BYTES:
        changes_cap = 100
        snapshot.over, snapshot.tree = snapshot.over or "changes", None
    return {
        "base_tree": base.tree,
        "over_cap": snapshot.over,
        "tree": snapshot.tree,
        "changes": rows[:changes_cap],
        "changes_total": len(rows),
        "changed_bytes": snapshot.changed_bytes,
        "files": len(snapshot.leaves),
        "directories": snapshot.directories,
        "bytes": snapshot.total_bytes,
        "hard_linked": snapshot.hard_linked,
        "left_out": snapshot.left_out,
        "left_out_counts": snapshot.left_out_counts,
        "ignored_known": True,
    }


class _Stream:
    """One long stream as `part` frames, with its digest."""

    def __init__(self, name: str, answers: int) -> None:
        self.name, self.answers = name, answers
        self.sha256 = hashlib.sha256()
        self.bytes = 0
        self.held = bytearray()

    def add(self, content: bytes) -> None:
        self.sha256.update(content)
        self.bytes += len(content)
        self.held += content
        while len(self.held) >= PART_BYTES:
            self._send(PART_BYTES)

    def end(self, complete: bool, **more: Any) -> None:
        if self.held:
            self._send(len(self.held))
        facts = {"bytes": self.bytes, "sha256": self.sha256.hexdigest(), "complete": complete, **more}
        write_frame(self.answers, {"type": "end", "stream": self.name, **facts})

    def _send(self, size: int) -> None:
        write_frame(self.answers, {"type": "part", "stream": self.name}, bytes(self.held[:size]))
        del self.held[:size]


def _send_patch(repository: Repository, request: dict[str, Any], facts: dict[str, Any], answers: int) -> None:
    """The unfiltered patch, and the proof that base + patch is the tree, applied in an index of its own."""
    stream = _Stream("patch", answers)
    if facts["over_cap"]:
        stream.end(False, reason=facts["over_cap"], round_trip=None)
    elif facts["tree"] == facts["base_tree"]:
        stream.end(True, reason=None, round_trip={"ok": True, "tree": facts["tree"], "stderr": ""})
    else:
        try:
            _send_diff(repository, request, facts, stream)
        except GitFailed:
            stream.end(False, reason="git_failed", round_trip=None)


def _send_diff(repository: Repository, request: dict[str, Any], facts: dict[str, Any], stream: _Stream) -> None:
    repository.git("read-tree", facts["base_tree"])
    apply = repository.popen("apply", "--cached", "--whitespace=nowarn", "-", stdin=-1, stdout=-3, stderr=-1)
    assert apply.stdin is not None and apply.stderr is not None
    feeding = True
    for piece in _diff(repository, facts["base_tree"], facts["tree"]):
        if stream.bytes + len(piece) > request["patch_bytes"]:
            apply.kill()
            apply.communicate()
            stream.end(False, reason="patch_bytes", round_trip=None)
            return
        stream.add(piece)
        feeding = feeding and _feed(apply, piece)
    _, stderr = apply.communicate()
    tree = repository.git("write-tree").decode("ascii").strip() if apply.returncode == 0 else None
    round_trip = {"ok": tree == facts["tree"], "tree": tree, "stderr": stderr[-4000:].decode("utf-8", "replace")}
    stream.end(True, reason=None, round_trip=round_trip)


def _feed(process: subprocess.Popen[bytes], piece: bytes) -> bool:
    assert process.stdin is not None
    try:
        process.stdin.write(piece)
    except BrokenPipeError:
        return False
    return True


def _diff(repository: Repository, old: str, new: str) -> Iterator[bytes]:
    process = repository.popen(*_DIFF, *_DIFF_FORM, old, new, stdin=-3, stdout=-1)
    assert process.stdout is not None
    try:
        while piece := process.stdout.read(1 << 16):
            yield piece
        if process.wait() != 0:
            raise GitFailed(f"git diff-tree: exit {process.returncode}")
    finally:
        process.kill()
        process.wait()


def _send_tree(root: str, limits: WalkLimits, cap: int, answers: int) -> None:
    stream = _Stream("tree", answers)
    reason = None
    try:
        for piece in tar_parts(root, limits, cap):
            stream.add(piece)
    except ArchiveFull:
        reason = "tree_bytes"
    except TooManyEntries:
        reason = "entries"
    stream.end(reason is None, reason=reason)


if __name__ == "__main__":
    sys.exit(serve(0, 1))
