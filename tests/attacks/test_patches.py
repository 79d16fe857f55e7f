"""What an agent plants beside its work: machinery is dropped and listed, a right fix beside it still resolves,
nothing is fooled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cells.outcome import PatchState, Verdict
from scoring.collected import Collected, StreamEnd
from scoring.gate import policy_of
from scoring.patch import join, sections_of
from scoring.policy import Decision, decide
from tests.scoring.calc_task import RIGHT, WRONG, Bench
from tests.scoring.collecting import running_collector
from tests.scoring.mutations import ENVIRONMENT

pytestmark = [pytest.mark.engine, pytest.mark.attack]

HOOK = b"""
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
"""
PLANTED = {
    "conftest.py": HOOK,
    "tests/conftest.py": HOOK,
    "planted/__init__.py": HOOK,
    "planted-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n",
    "planted-1.0.dist-info/entry_points.txt": b"[pytest11]\nplanted = planted\n",
    "src/planted.egg-info/entry_points.txt": b"[pytest11]\nplanted = planted\n",
    "sitecustomize.py": b"import os\nos._exit(0)\n",
    "src/usercustomize/__init__.py": b"import os\nos._exit(0)\n",
    "src/planted.pth": b"import os; os._exit(0)\n",
    "pytest.ini": b"[pytest]\naddopts = -p planted --maxfail=1\n",
    "tox.ini": b"[pytest]\naddopts = -p planted\n",
    "pyproject.toml": b"[tool.pytest.ini_options]\naddopts = '-p planted'\n",
    "pytest.py": b"print('1 passed')\n",
    "src/json.py": b"import os; os._exit(0)\n",
    "tests/test_calc.py": b"def test_add_of_two():\n    pass\n",
    "tests/__pycache__/test_calc.cpython-311-pytest-9.2.0.pyc": b"\0planted",
    "fakebin/python3": b"#!/bin/sh\necho 1 passed\nexit 0\n",
}
KEPT = {"src/calc.py", "fakebin/python3", "planted/__init__.py"}


def decision(bench: Bench, files: Mapping[str, bytes], links: Mapping[str, str], where: Path) -> Decision:
    """Collect a tree with these files and links over the base, and let the task's policy decide."""
    root, git_dir = where / "tree", where / "base.git"
    for name, content in bench.base.items():
        _write(root / name, content)
    environment = {**ENVIRONMENT, "GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(root)}
    for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-qm", "base"]):
        subprocess.run(["git", *command], env=environment, cwd=root, check=True, capture_output=True)
    tree = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
    for name, content in files.items():
        _write(root / name, content)
    for name, target in links.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, root / name)
    with running_collector() as collector:
        answer = collector.collect(root, git_dir, tree)
    ends = {
        name: StreamEnd(**{key: value for key, value in end.items() if key not in ("type", "stream", "size")})
        for name, end in answer.ends.items()
    }
    collected = Collected(task=bench.task.id, facts=answer.facts, patch=ends["patch"], archive=ends["tree"], files={})
    return decide(collected, sections_of(answer.patch, answer.facts.changes), policy_of(bench.task, bench.pack))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755 if content.startswith(b"#!") else 0o644)


def test_planted_hooks_are_dropped_and_the_right_fix_beside_them_resolves(calc: Bench, tmp_path: Path) -> None:
    """Naive: the tree is trusted whole, or thrown away whole."""
    found = decision(calc, {**PLANTED, "src/calc.py": RIGHT}, {}, tmp_path)
    assert found.state is PatchState.PRESENT and not found.rejections
    assert {section.path.decode() for section in found.kept} == KEPT
    assert {dropped.section.path.decode() for dropped in found.dropped} == PLANTED.keys() - KEPT
    assert calc.verify_patch(join(found.kept)).verdict is Verdict.RESOLVED


def test_planted_hooks_do_not_help_a_wrong_fix(calc: Bench, tmp_path: Path) -> None:
    """Naive: pytest says that everything passed."""
    found = decision(calc, {**PLANTED, "src/calc.py": WRONG + b"# wrong\n"}, {}, tmp_path)
    assert calc.verify_patch(join(found.kept)).verdict is Verdict.UNRESOLVED


def test_machinery_that_slipped_through_is_put_back_in_the_verifier(calc: Bench) -> None:
    """Naive: what was filtered once is not looked at again. Here nobody filtered at all."""
    slipped = {name: PLANTED[name] for name in ("conftest.py", "pytest.ini", "src/json.py", "sitecustomize.py")}
    found = calc.verify({"src/calc.py": RIGHT, **slipped})
    assert set(found.restored) == set(slipped)
    assert found.verdict is Verdict.RESOLVED


@pytest.mark.parametrize(
    ("target", "rejected"),
    [
        ("/etc/passwd", True),
        ("../../etc/passwd", True),
        ("calc.py", False),
        ("../README.md", False),
        ("/workspace/src/calc.py", False),
        ("/workspace/../etc/passwd", True),
        ("/workspacex", True),
        ("nowhere", False),
        ("..", False),
        ("../..", True),
        ("a/../../../x", True),
    ],
)
def test_a_link_out_of_the_tree_rejects_the_patch(target: str, rejected: bool, calc: Bench, tmp_path: Path) -> None:
    """Naive: a link is just a file."""
    found = decision(calc, {"src/calc.py": RIGHT}, {"src/link": target}, tmp_path)
    assert found.state is (PatchState.REJECTED if rejected else PatchState.PRESENT), found.rejections


def test_a_link_in_the_place_of_the_hidden_tests_catches_nothing(calc: Bench) -> None:
    """Naive: root copies the hidden tests along the candidate's link."""
    found = calc.verify({"tests/test_calc.py": b"-> ../src/calc.py", "src/calc.py": RIGHT})
    assert found.verdict is Verdict.RESOLVED
    found = calc.verify({"tests/test_calc.py": None, "tests": b"-> src", "src/calc.py": RIGHT})
    assert found.verdict is Verdict.RESOLVED


def test_a_patch_of_many_long_names_is_verified_like_any_other(calc: Bench) -> None:
    """Naive: the list of files goes into one line, and the verifier breaks on it."""
    long = {f"{'n' * 200}/{'m' * 200}/{number}.txt": b"x\n" for number in range(1900)}
    found = calc.verify({"src/calc.py": RIGHT, **long})
    assert found.verdict is Verdict.RESOLVED, found.detail


@pytest.mark.parametrize("name", ["../outside.py", ".git/hooks/pre-commit", "src/../../x.py", "/abs.py"])
def test_a_patch_that_names_what_is_not_in_the_tree_does_not_apply(calc: Bench, name: str) -> None:
    """Naive: `patch -p1` as root."""
    patch = (
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n".encode()
    )
    found = calc.verify_patch(patch)
    assert (found.verdict, found.reason) == (Verdict.INVALID, "patch_unappliable")
