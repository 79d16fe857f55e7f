"""Talk with the collector program as a process of the host, and an independent judge of what its patch does."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cells.incell.trusted.collector as collector_program
from cells.incell.trusted.frames import read_frame, write_frame
from scoring.collected import Facts
from tests.scoring.mutations import ENVIRONMENT, make_base

CAPS = {"changes": 5000, "changed_bytes": 32 << 20, "patch_bytes": 32 << 20, "tree_bytes": 512 << 20}


@dataclass
class Answer:
    """A whole answer to `collect`."""

    facts: Facts
    patch: bytes = b""
    tree: bytes = b""
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Collector:
    """A running collector."""

    process: subprocess.Popen[bytes]

    def ask(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send a request."""
        assert self.process.stdin is not None
        write_frame(self.process.stdin.fileno(), header, body)

    def frame(self) -> tuple[dict[str, Any], bytes]:
        """The next frame."""
        assert self.process.stdout is not None
        frame = read_frame(self.process.stdout, 1 << 30)
        assert frame is not None
        return frame

    def collect(self, root: Path, base_git: Path, base_tree: str, **caps: Any) -> Answer:
        """Collect one tree."""
        request = {"root": str(root), "base_git": str(base_git), "base_tree": base_tree}
        self.ask({"type": "collect", **request, **CAPS, **caps})
        header, body = self.frame()
        assert header["type"] == "facts", header
        answer = Answer(Facts.model_validate_json(body))
        while header["type"] != "collected":
            header, body = self.frame()
            if header["type"] == "part":
                setattr(answer, header["stream"], getattr(answer, header["stream"]) + body)
            elif header["type"] == "end":
                answer.ends[header["stream"]] = header
        return answer


@contextmanager
def running_collector() -> Iterator[Collector]:
    """The program as a container runs it: isolated, from its file alone."""
    program = str(collector_program.__file__)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        yield Collector(process)
        assert process.stdin is not None
        process.stdin.close()
    assert process.returncode == 0


@dataclass(frozen=True)
class Base:
    """A base tree on the host: the bare repository that holds it, its tree id, and a directory with it."""

    git: Path
    tree: str
    pristine: Path


def make_git_base(where: Path) -> Base:
    """The base of the mutations, as an image would hold it."""
    pristine, git_dir = where / "pristine", where / "collector.git"
    make_base(pristine)
    shutil.rmtree(pristine / ".git")
    environment = {**ENVIRONMENT, "GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(pristine)}
    for command in (["init", "-q"], ["add", "-A", "-f", "."], ["commit", "-qm", "base"]):
        subprocess.run(["git", *command], env=environment, cwd=pristine, check=True, capture_output=True)
    (git_dir / "index").unlink()
    found = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], env=environment, check=True, capture_output=True, text=True
    )
    return Base(git_dir, found.stdout.strip(), pristine)


def fingerprint(root: Path) -> str:
    """Every file and link below a directory: path, kind, executable bit, content; `.git` of any case and what no
    patch can
    hold left out. Walks with its own code, so that it can disagree with the collector's."""
    rows: list[bytes] = []
    pending = [b""]
    while pending:
        prefix = pending.pop()
        for entry in os.scandir(os.path.join(os.fsencode(root), prefix)):
            path = os.path.join(prefix, os.fsencode(entry.name))
            if os.fsencode(entry.name).lower() == b".git":
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            full = os.path.join(os.fsencode(root), path)
            if stat.S_ISDIR(mode):
                pending.append(path)
            elif stat.S_ISLNK(mode) and os.path.basename(path) != b".gitmodules":
                rows.append(path + b"\0link\0" + os.readlink(full))
            elif stat.S_ISREG(mode):
                with open(full, "rb") as file:
                    content = hashlib.sha256(file.read()).digest()
                rows.append(path + b"\0" + (b"x" if mode & 0o100 else b"-") + b"\0" + content)
    return hashlib.sha256(b"\n".join(sorted(rows))).hexdigest()


def applied(base: Base, patch: bytes, where: Path) -> Path:
    """A copy of the pristine tree with a patch applied by git, outside of any repository."""
    copy = where / "applied"
    shutil.copytree(base.pristine, copy, symlinks=True)
    if patch:
        subprocess.run(
            ["git", "-c", "core.protectNTFS=false", "apply", "--whitespace=nowarn", "-"],
            input=patch,
            cwd=copy,
            env={**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(where), "GIT_DIR": "/nonexistent"},
            check=True,
            capture_output=True,
        )
    return copy


def gather_answer(collector: Collector, request: dict[str, Any]) -> list[tuple[dict[str, Any], bytes]]:
    """All frames of an answer to `gather`."""
    collector.ask({"type": "gather"}, json.dumps(request).encode())
    frames = [collector.frame()]
    while frames[-1][0]["type"] not in ("gathered", "error"):
        frames.append(collector.frame())
    return frames
