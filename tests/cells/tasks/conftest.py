"""A small task directory for tests of tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TASK_TOML = """\
schema_version = 1
id = "demo"
repository = "demo"

[image]
base = "python"
recipe = { apt = ["git"], pip = ["pytest==9.2.0"] }

[verify]
command = ["python3", "-m", "pytest", "--junitxml", "{report}"]
runner = "pytest"
f2p = ["tests.test_calc::test_add"]
p2p = ["tests.test_calc::test_other"]
"""


@pytest.fixture
def task_directory(tmp_path: Path) -> Path:
    """A right task directory."""
    directory = tmp_path / "demo"
    write(directory, "task.toml", TASK_TOML)
    write(directory, "prompt.md", "mend it\n")
    write(directory, "repo/calc.py", "def add(a, b):\n    return a - b\n")
    write(directory, "sealed/tests/tests/test_calc.py", "def test_add():\n    pass\n")
    write(directory, "sealed/gold.patch", "diff --git a/calc.py b/calc.py\n")
    return directory


@pytest.fixture
def rewrite(task_directory: Path) -> Callable[[str, str], Path]:
    """Replaces a piece of task.toml, which must be there; the directory."""

    def replaced(old: str, new: str) -> Path:
        assert old in TASK_TOML
        write(task_directory, "task.toml", TASK_TOML.replace(old, new, 1))
        return task_directory

    return replaced


def write(directory: Path, name: str, content: str) -> None:
    """Write a text file below a directory."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
