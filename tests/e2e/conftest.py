"""Whole studies by the command line, on the real engine: one studies root, the command as users call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cells.evidence.history import History
from cells.evidence.ledger import Ledger, Row

HIDDEN = """\
from calc import add, negate


def test_add():
    assert add(2, 3) == 5


def test_negate():
    assert negate(3) == -3
"""
VERIFY = '["python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--junitxml", "{report}"]'
GOLD = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a + b
{0}
{0}
 def negate(a):
""".format(" ")


def write_task(directory: Path, name: str, *, pip: str = "pytest==9.2.0", repository: str = "calc") -> None:
    """A task whose fix is one character."""
    task = directory / name
    (task / "repo").mkdir(parents=True)
    (task / "sealed" / "tests" / "tests").mkdir(parents=True)
    (task / "task.toml").write_text(
        f'schema_version = 1\nid = "{name}"\nrepository = "{repository}"\n[image]\nbase = "python"\n'
        f'recipe = {{ pip = ["{pip}"] }}\n[verify]\ncommand = {VERIFY}\nrunner = "pytest"\ntimeout_s = 60\n'
        'f2p = ["tests.test_calc::test_add"]\np2p = ["tests.test_calc::test_negate"]\n'
    )
    (task / "prompt.md").write_text("add(2, 3) returns -1; it should return 5.\n")
    (task / "repo" / "calc.py").write_text("def add(a, b):\n    return a - b\n\n\ndef negate(a):\n    return -a\n")
    (task / "sealed" / "tests" / "tests" / "test_calc.py").write_text(HIDDEN)
    (task / "sealed" / "gold.patch").write_text(GOLD)


def write_study(directory: Path, name: str, arms: dict[str, str], *, samples: int = 1, more: str = "") -> Path:
    """A study of `command` arms over the tasks in `directory`/tasks."""
    lines = [f'[study]\nname = "{name}"\nseed = 5\ntasks = ["tasks/*"]\nsamples = {samples}']
    lines += ["[limits]\nwall_s = 60\nmemory_mb = 256\ndisk_mb = 32"]
    for arm, script in arms.items():
        lines.append(
            f'[arms.{arm}]\nharness = "command"\nsettings = {{ command = ["sh", "-c", {json.dumps(script)}] }}'
        )
    path = directory / "study.toml"
    path.write_text("\n".join([*lines, more, ""]))
    return path


@dataclass(frozen=True)
class Assay:
    """The command line against one studies root."""

    studies: Path

    def start(
        self, *words: str | Path, studies: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "flows.cli.main", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | {"ASSAY_STUDIES": str(studies or self.studies)} | dict(environment or {}),
        )

    def run(self, *words: str | Path, **where: Any) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of a command."""
        process = self.start(*words, **where)
        out, err = process.communicate(timeout=240)
        return process.returncode, out.decode(), err.decode()

    def containers(self, study: str) -> list[str]:
        """Ids of containers of a study on the engine."""
        command = ["docker", "ps", "-aq", "--filter", f"label=assay.study={study}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def rows(self, study: str) -> list[Row]:
        """The rows of a study's ledger."""
        return Ledger.open(self.studies / study).rows()

    def ledger(self, study: str) -> History:
        """What the ledger of a study says."""
        return History.of(Ledger.open(self.studies / study).rows())

    def json(self, *words: str | Path, expect: int = 0) -> Any:
        """The JSON document of a command that ends with `expect`."""
        code, out, err = self.run(*words, "--json")
        assert code == expect, (code, out, err)
        return json.loads(out)


@pytest.fixture(scope="session")
def assay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assay]:
    command = Assay(tmp_path_factory.mktemp("studies"))
    yield command
    command.run("server", "stop")


@dataclass(frozen=True)
class Workshop:
    """Makes tasks and studies in a directory of the test."""

    directory: Path

    def task(self, name: str, *, pip: str = "pytest==9.2.0") -> None:
        """A task whose fix is one character."""
        write_task(self.directory / "tasks", name, pip=pip)

    def study(self, name: str, arms: dict[str, str], *, samples: int = 1, more: str = "") -> Path:
        """A study file over the tasks made so far; `arms` are shell commands."""
        return write_study(self.directory, name, arms, samples=samples, more=more)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)
