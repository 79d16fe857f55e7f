"""Locks of a study: who may write, and who does.

Rules (30-evidence 10, 11, 37; 10-architecture "On disk"):
1. A lock is an flock on a file of ours below `locks/`; it is gone with its process, whatever kills it. Identity is
   not a lock.
2. Where the file system cannot lock, or is a network file system whose locks are not trusted, the study is refused.
3. The holder writes who it is beside the lock, so that the one who is refused can say whom to wait for.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import filelock

from cells.errors import EnvironmentFault

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gfs2", "ocfs2", "glusterfs", "beegfs"}
    | {"orangefs", "ncpfs", "coda", "davfs"}
)
"""File-system types whose locks and renames are not trusted."""
_NETWORK_FUSE = ("sshfs", "glusterfs", "s3fs", "rclone", "gcsfuse", "ceph", "davfs", "curlftpfs", "moosefs", "goofys")


class Busy(EnvironmentFault):
    """Somebody else is writing; nothing was changed."""


class Lock:
    """An exclusive lock between processes and threads. Not reentrant."""

    def __init__(self, path: Path, *, what: str) -> None:
        self._path, self._what = path, what
        self._lock = filelock.FileLock(
            path, mode=0o640, thread_local=False, fallback_to_soft=False, preserve_lock_file=True
        )
        self._threads = threading.Lock()

    @contextmanager
    def held(self, timeout_s: float = 0.0) -> Iterator[None]:
        """Hold it; `Busy` when it is not free within `timeout_s` seconds (a negative one waits for ever)."""
        if not self._threads.acquire(timeout=timeout_s if timeout_s > 0 else -1 if timeout_s < 0 else 0.001):
            raise Busy(self._busy())
        try:
            try:
                self._lock.acquire(timeout=timeout_s, poll_interval=0.005)
            except filelock.Timeout as error:
                raise Busy(self._busy()) from error
            except NotImplementedError as error:
                raise EnvironmentFault(
                    f"{self._path}: this file system cannot lock files; put the studies on a local one"
                ) from error
            try:
                yield
            finally:
                self._lock.release()
        finally:
            self._threads.release()

    def _busy(self) -> str:
        return f"{self._what} is being written by {holder(self._path)}; wait for it, or stop it"


class StudyLocks:
    """The locks of a study directory on this machine."""

    def __init__(self, study: Path) -> None:
        self._study, self._folder = study, study / "locks"
        self._study_lock = Lock(self._folder / "study.lock", what=f"study {study.name}")
        self._ledger_lock = Lock(self._folder / "ledger.lock", what=f"the ledger of {study.name}")

    @contextmanager
    def study(self, timeout_s: float) -> Iterator[None]:
        """The right to write units."""
        refuse_network(self._study)
        self._folder.mkdir(mode=0o750, exist_ok=True)
        with self._study_lock.held(timeout_s):
            sign_lock(self._folder / "study.lock")
            yield

    def ledger(self) -> AbstractContextManager[None]:
        """The right to append rows; waits up to a minute for another process's append."""
        return self._ledger_lock.held(60.0)

    def cell(self, cell: str) -> AbstractContextManager[None]:
        """The right to run a cell; `Busy` at once when somebody else has it."""
        folder = self._folder / "cells"
        folder.mkdir(mode=0o750, exist_ok=True)
        return Lock(folder / f"{cell}.lock", what=f"cell {cell}").held()


class NoLocks:
    """For a file system that only one thread can see: the model of power loss."""

    def study(self, timeout_s: float) -> AbstractContextManager[None]:
        return nullcontext()

    def ledger(self) -> AbstractContextManager[None]:
        return nullcontext()

    def cell(self, cell: str) -> AbstractContextManager[None]:
        return nullcontext()


def sign_lock(path: Path) -> None:
    """Write who holds the lock beside it; for people, never for decisions."""
    text = json.dumps({"pid": os.getpid(), "since_mono_s": round(time.monotonic(), 3)})
    path.with_suffix(".holder").write_text(text)


def holder(path: Path) -> str:
    """Who wrote its name beside the lock."""
    try:
        return f"process {json.loads(path.with_suffix('.holder').read_text())['pid']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def refuse_network(path: Path, mounts: Callable[[], str] | None = None) -> None:
    """EnvironmentFault when the path lies on a network file system. `mounts` gives the text of /proc/self/mountinfo."""
    kind = file_system_of(path, (mounts or _mountinfo)())
    name, _, inner = kind.partition(".")
    if name in NETWORK or (name == "fuse" and inner in _NETWORK_FUSE):
        raise EnvironmentFault(
            f"{path}: lies on a network file system ({kind}); its locks and renames cannot be trusted. "
            "Put the studies on a local file system"
        )


def file_system_of(path: Path, mountinfo: str) -> str:
    """The type of the file system that holds a path, by the longest mount point above it; "unknown" when none is
    listed."""
    real = os.path.realpath(path)
    best, kind = "", "unknown"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) < 5 or not rest:
            continue
        point = fields[4].encode().decode("unicode_escape")
        inside = point == "/" or real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, rest[0]
    return kind


def _mountinfo() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text()
    except OSError:
        return ""
