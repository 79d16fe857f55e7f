"""Sealed attempts and tasks for tests, made through the real types; and a channel that plays frames back."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cells.attempt import LiveAttempt, SealedAttempt
from cells.evidence.digest import canonical_json
from cells.sandbox import ChannelClosed, Frame
from cells.tasks.directory import load_task
from cells.tasks.frozen import FrozenTask, freeze

BASE_TREE = "1" * 40
LIMITS: dict[str, Any] = {
    "clock": "active", "wall_s": 60.0, "turns": None, "requests": None, "total_tokens": None, "cost": None,
    "memory_mb": 512, "cpus": 1.0, "disk_mb": 64, "disk_backing": "memory", "pids": 128, "verify_s": 60.0,
}  # fmt: skip


def cell_spec(task: str = "calc-1", *, arm: str = "control", control: str | None = None) -> dict[str, Any]:
    """The content of start/spec.json."""
    content = {
        "name": arm, "harness": "reference", "model": {"name": "fixed", "provider": "scripted"}, "input_limit": 4096,
        "settings": {}, "detectors": {}, "control": control,
    }  # fmt: skip
    digest = "sha256:" + "2" * 64
    return {
        "v": 1, "task": task, "task_sha256": digest, "recipe_sha256": digest, "arm": content, "limits": LIMITS,
        "sample": 1,
    }  # fmt: skip


def live_facts(ended: str = "completed", base_tree: str = BASE_TREE, **more: Any) -> dict[str, Any]:
    """The facts of live/SEAL.json, as far as post-run code reads them."""
    base = {"head_commit": "a" * 40, "head_tree": base_tree, "base_commit": "b" * 40, "base_tree": base_tree}
    return {
        "v": 1, "ended": ended, "detail": "", "exit_code": 0, "base": base, "timings": {"run_s": 2.0, "active_s": 1.5},
        "counters": {"cpu_s": 0.5}, "budget": None, "exposure": ["harness_files"], **more,
    }  # fmt: skip


def sealed_attempt(
    root: Path,
    *,
    spec: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    live: Mapping[str, bytes] | None = None,
) -> SealedAttempt:
    """A sealed attempt whose live side wrote `live` (names without `live/`) beside what every attempt has."""
    attempt = LiveAttempt.create(root)
    session = {"v": 1, "cell_id": "sha256:" + "3" * 64, "attempt": root.name, "at": "2026-01-01T00:00:00.000Z"}
    attempt.write("start/spec.json", canonical_json(dict(spec or cell_spec())), "planner")
    attempt.write("start/session.json", canonical_json(session), "launcher")
    attempt.seal_start("container", {})
    files = {"transcript.log": b"", "trace.jsonl": b"", "usage.jsonl": b"", "noise.jsonl": b"", **(live or {})}
    for name, content in files.items():
        writer = "sampler" if name == "noise.jsonl" else "gateway"
        attempt.write(f"live/{name}", content, writer)
    return attempt.seal([], dict(facts or live_facts()))


def make_task(where: Path, toml: str, files: Mapping[str, bytes], prompt: str = "Repair it.\n") -> FrozenTask:
    """A native task directory, frozen. `files` are `repo/...` and `sealed/...`; `-> target` is a link."""
    source = where / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    (source / "task.toml").write_text(toml)
    (source / "prompt.md").write_text(prompt)
    for name, content in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith(b"-> "):
            path.symlink_to(content[3:].decode())
            continue
        path.write_bytes(content)
        path.chmod(0o755 if content.startswith(b"#!") else 0o644)
    task = load_task(source)
    frozen = where / "frozen"
    frozen.mkdir(exist_ok=True)
    return freeze(task, frozen / task.id)


class PlayedChannel:
    """`cells.sandbox.Channel` that plays frames back, and then is closed."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self.frames = list(frames)
        self.sent: list[dict[str, Any]] = []

    def send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        self.sent.append(dict(header))

    def receive(self, deadline: float, max_body: int) -> Frame:
        if not self.frames:
            raise ChannelClosed("no frame is left")
        return self.frames.pop(0)

    def close(self) -> None:
        self.frames.clear()


def collector_frames(
    changes: Sequence[Mapping[str, Any]],
    patch: bytes,
    *,
    base_tree: str = BASE_TREE,
    tree: str | None = "4" * 40,
    ok: bool = True,
    archive: bytes = b"archive",
    **facts: Any,
) -> list[Frame]:
    """What a collector answers."""
    body = {"base_tree": base_tree, "tree": tree, "over_cap": None, "changes": list(changes),
            "changes_total": len(changes), "files": 3, "directories": 1, "bytes": 10, "hard_linked": 0,
            "changed_bytes": 5, "left_out": [], "left_out_counts": {}, **facts}  # fmt: skip
    proof = {"ok": ok, "tree": tree if ok else None, "stderr": "" if ok else "error: patch does not apply"}
    return [
        Frame({"type": "facts"}, json.dumps(body).encode()),
        Frame({"type": "part", "stream": "patch"}, patch),
        _end("patch", patch, round_trip=proof),
        Frame({"type": "part", "stream": "tree"}, archive),
        _end("tree", archive),
        Frame({"type": "collected"}),
    ]


def _end(stream: str, content: bytes, **more: Any) -> Frame:
    digest = hashlib.sha256(content).hexdigest()
    header = {
        "type": "end",
        "stream": stream,
        "bytes": len(content),
        "sha256": digest,
        "complete": True,
        "reason": None,
    }
    return Frame(header | more)
