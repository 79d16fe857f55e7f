"""Files that a launcher declared, out of volumes that a cell wrote: patterns below given roots, no link followed,
capped.

Rules:
1. A pattern is relative: segments match names as in a shell, `**` matches any number of directories; `..` and
   absolute patterns are refused.
2. Only regular files are sent, each once; a link or special file that matches is told as skipped, with the reason.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .names import encode_name
from .walk import Entry, WalkLimits, walk

Send = Callable[[dict[str, Any], bytes], None]


@dataclass(frozen=True)
class GatherCaps:
    """How much is gathered at most: files, bytes of one file, bytes in all."""

    files: int = 2000
    file_bytes: int = 32 << 20
    total_bytes: int = 128 << 20


class BadPattern(Exception):
    """A pattern that could leave its root."""


def gather(wanted: list[dict[str, str]], caps: GatherCaps, limits: WalkLimits, send: Send) -> None:
    """Send a `file` frame for each match and `skipped` frames for what matched and is not sent; last a `gathered`
    frame.

    `wanted` rows are `{"root": absolute path in this container, "pattern": "traces/**/*.jsonl"}`.
    """
    state = _Gathering(caps, send)
    for root in dict.fromkeys(row["root"] for row in wanted):
        patterns = [_segments(row["pattern"]) for row in wanted if row["root"] == root]
        if os.path.isdir(root):
            _gather_root(root, patterns, limits, state)
    send({"type": "gathered", "files": state.files, "bytes": state.size, "skipped": state.skipped}, b"")


@dataclass
class _Gathering:
    caps: GatherCaps
    send: Send
    files: int = 0
    size: int = 0
    skipped: int = 0

    def skip(self, root: str, path: bytes, reason: str) -> None:
        self.skipped += 1
        if self.skipped <= self.caps.files:
            self.send({"type": "skipped", "root": root, "name": encode_name(path), "reason": reason}, b"")

    def file(self, root: str, entry: Entry) -> None:
        if self.files >= self.caps.files or self.size + entry.size > self.caps.total_bytes:
            self.skip(root, entry.path, "over the cap of all files")
        elif entry.size > self.caps.file_bytes:
            self.skip(root, entry.path, f"{entry.size} bytes, allowed {self.caps.file_bytes}")
        else:
            content = _read(entry)
            self.files += 1
            self.size += len(content)
            header = {"type": "file", "root": root, "name": encode_name(entry.path), "nlink": entry.links}
            self.send({**header, "executable": entry.executable}, content)


def _gather_root(root: str, patterns: list[list[bytes]], limits: WalkLimits, state: _Gathering) -> None:
    def left_out(path: bytes, reason: str) -> None:
        if _matches(path, patterns):
            state.skip(root, path, reason)

    for entry in walk(root, limits, left_out):
        if entry.kind == "dir" or not _matches(entry.path, patterns):
            continue
        if entry.kind == "link":
            state.skip(root, entry.path, "link")
        else:
            state.file(root, entry)


def _read(entry: Entry) -> bytes:
    descriptor = entry.open()
    with os.fdopen(descriptor, "rb") as file:
        return file.read(entry.size)


def _segments(pattern: str) -> list[bytes]:
    segments = os.fsencode(pattern).split(b"/")
    if not all(segments) or any(segment in (b".", b"..") for segment in segments):
        raise BadPattern(f"a pattern is relative and has no empty, `.` or `..` segment: {pattern!r}")
    return segments


def _matches(path: bytes, patterns: list[list[bytes]]) -> bool:
    parts = path.split(b"/")
    return any(_match(parts, pattern) for pattern in patterns)


def _match(parts: list[bytes], pattern: list[bytes]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == b"**":
        return any(_match(parts[skip:], pattern[1:]) for skip in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _match(parts[1:], pattern[1:])
