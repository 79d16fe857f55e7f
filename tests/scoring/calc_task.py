"""A small task on a real engine, verified directly: a patch in, a verification out."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cells.design.cell import CellLimits
from cells.incell.trusted.names import encode_name
from cells.sandbox import Owner, SandboxFactory
from cells.tasks.frozen import FrozenTask
from cells.tasks.image import TaskImage
from scoring.collected import Change
from scoring.pack import VerifierPack, read_pack
from scoring.verification import Verification, VerifyCase, verify_patch
from tests.scoring.attempts import LIMITS
from tests.scoring.mutations import ENVIRONMENT

TOML = """\
schema_version = 1
id = "calc-1"
repository = "calc"
[image]
base = "python"
recipe = { pip = ["pytest==9.2.0"] }
[verify]
command = ["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--junitxml", "{report}"]
runner = "pytest"
timeout_s = 20
env = { PYTHONPATH = "src" }
f2p = ["tests.test_calc::test_add_of_two"]
p2p = ["tests.test_calc::test_difference", "tests.test_calc.TestMore::test_more[3]"]
"""
WRONG = b"def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n"
RIGHT = WRONG.replace(b"return a - b", b"return a + b", 1)
HIDDEN = b"""\
import pytest

from calc import add, sub


def test_difference():
    assert sub(3, 1) == 2


def test_add_of_two():
    assert add(2, 3) == 5


class TestMore:
    @pytest.mark.parametrize("number", [1, 3])
    def test_more(self, number):
        assert sub(number, number) == 0
"""
FILES = {
    "repo/src/calc.py": WRONG,
    "repo/tests/test_calc.py": b"from calc import sub\n\n\ndef test_difference():\n    assert sub(3, 1) == 2\n",
    "repo/README.md": b"Calc.\n",
    "sealed/tests/tests/test_calc.py": HIDDEN,
    "sealed/gold.patch": b"""\
--- a/src/calc.py
+++ b/src/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
""",
}


def patch_of(base: Mapping[str, bytes], candidate: Mapping[str, bytes | None]) -> tuple[bytes, tuple[Change, ...]]:
    """The git patch from a base to the same with files written, links made (`-> target`), or (None) removed; and its
    changes."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in base.items():
            _write(root / name, content)
        for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-qm", "base"]):
            subprocess.run(["git", *command], cwd=root, env=ENVIRONMENT, check=True, capture_output=True)
        for name, new in candidate.items():
            if new is None:
                (root / name).unlink()
            elif new.startswith(b"-> "):
                shutil.rmtree(root / name, ignore_errors=True)
                (root / name).unlink(missing_ok=True)
                (root / name).symlink_to(new[3:].decode())
            else:
                _write(root / name, new)
        subprocess.run(["git", "add", "-A", "-f"], cwd=root, env=ENVIRONMENT, check=True)
        diff = ["git", "diff", "--cached", "--no-renames"]
        patch = subprocess.run(
            [*diff, "--binary", "--full-index"], cwd=root, env=ENVIRONMENT, check=True, capture_output=True
        )
        raw = subprocess.run(
            [*diff, "--raw", "-z", "--no-abbrev"], cwd=root, env=ENVIRONMENT, check=True, capture_output=True
        )
        return patch.stdout, _changes(raw.stdout.split(b"\0"))


def _changes(words: list[bytes]) -> tuple[Change, ...]:
    found = []
    for head, path in zip(words[::2], words[1::2], strict=False):
        old_mode, new_mode, old, new, status = head.decode().lstrip(":").split(" ")
        fields = {"path": encode_name(path), "status": status, "old_mode": old_mode, "new_mode": new_mode}
        found.append(Change.model_validate({**fields, "old": old, "new": new, "size": None, "target": None}))
    return tuple(found)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if content.startswith(b"#!") else 0o644)


@dataclass(frozen=True)
class Bench:
    """A task with its image, and the engine to verify on."""

    task: FrozenTask
    image: TaskImage
    sandboxes: SandboxFactory
    pack: VerifierPack
    base: Mapping[str, bytes]

    @classmethod
    def of(cls, task: FrozenTask, image: TaskImage, sandboxes: SandboxFactory) -> Bench:
        """For a frozen task whose base state is a directory."""
        entries = task.base_entries()
        assert entries is not None
        base = {entry.path.decode(): entry.content for entry in entries}
        return cls(task, image, sandboxes, read_pack(task), base)

    def verify(self, candidate: Mapping[str, bytes | None], **limits: Any) -> Verification:
        """Verify files of a candidate, as they are: no policy is asked before."""
        return self.verify_patch(*patch_of(self.base, candidate), **limits)

    def verify_patch(self, patch: bytes, changes: tuple[Change, ...] = (), **limits: Any) -> Verification:
        """Verify a patch, with the listing of its changes where there is one."""
        found = TypeAdapter(CellLimits).validate_python({**LIMITS, **limits})
        owner = Owner("tests", "calc", "a001", "verifier", 600)
        case = VerifyCase(self.task, self.image, self.pack, patch, changes, found, owner, "seed")
        return verify_patch(case, self.sandboxes, threading.Event())

    def with_task(self, task: FrozenTask) -> Bench:
        """The same image with another verifier pack."""
        return replace(self, task=task, pack=read_pack(task))
