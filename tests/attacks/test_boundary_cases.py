"""A06 and A07: an agent that makes a wrong solution look right, and one that looks for the fix in the history.

Naive: the tree is tested where it stands, with every hook, plugin and interpreter in it; a clone reset to the base
still holds what came after. Ours: test machinery comes from base and pack, such hunks are dropped and listed; nothing
in the repository is newer than the base.
"""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from cells.artifacts import Role
from cells.artifacts.conditions import Condition
from cells.outcome import PatchState, Verdict
from tests.scoring.calc_task import RIGHT, Bench
from tests.scoring.live_cells import live_cell, post

pytestmark = [pytest.mark.engine, pytest.mark.attack]
FIX = f"echo {base64.b64encode(RIGHT).decode()} | base64 -d > src/calc.py"
HOOK = """import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
PLANT = f"""
hook=$(echo {base64.b64encode(HOOK.encode()).decode()} | base64 -d)
printf '%s' "$hook" > conftest.py; printf '%s' "$hook" > tests/conftest.py
mkdir -p planted planted-1.0.dist-info fakebin
printf '%s' "$hook" > planted/__init__.py
printf 'Metadata-Version: 2.1\\nName: planted\\nVersion: 1.0\\n' > planted-1.0.dist-info/METADATA
printf '[pytest11]\\nplanted = planted\\n' > planted-1.0.dist-info/entry_points.txt
printf 'import os\\nos.environ.setdefault("PYTEST_ADDOPTS", "-p planted")\\n' > sitecustomize.py
cp sitecustomize.py src/sitecustomize.py
printf 'import sitecustomize\\n' > planted.pth
printf '[pytest]\\naddopts = --maxfail=1 -p no:junitxml\\n' > pytest.ini
printf '#!/bin/sh\\necho "3 passed in 0.01s"\\nexit 0\\n' > fakebin/python3; chmod +x fakebin/python3
cp fakebin/python3 python3
"""
MACHINERY = (
    "conftest.py",
    "tests/conftest.py",
    "sitecustomize.py",
    "src/sitecustomize.py",
    "planted.pth",
    "pytest.ini",
)
HISTORY = r"""
git log --all --format=%H > log; git for-each-ref --format='%(objectname)' > refs
git reflog --all --format=%H > reflog 2>/dev/null
git fsck --unreachable --no-reflogs --dangling > lost 2>/dev/null
git stash list > stash; git notes list > notes 2>/dev/null
ls .git/packed-refs .git/ORIG_HEAD .git/FETCH_HEAD > more 2>/dev/null
git cat-file --batch-all-objects --batch-check='%(objecttype)' | grep -c commit > commits
sort -u log refs reflog | wc -l > known; cat lost stash notes more | wc -l > rest
cat known commits rest
for folder in .git /assay /home /opt /srv /tmp /var; do grep -rl 'return a + b' $folder 2>/dev/null; done | head
"""


@pytest.mark.parametrize(
    ("script", "verdict"), [(PLANT, Verdict.UNRESOLVED), (f"{FIX}; {PLANT}", Verdict.RESOLVED)], ids=["alone", "beside"]
)
def test_a06_planted_hooks_change_no_verdict_and_are_listed(
    calc: Bench, tmp_path: Path, script: str, verdict: Verdict
) -> None:
    with live_cell(calc, tmp_path / "a001", script) as (sealed, collector):
        result = post(calc, sealed, collector)
    assert (result.patch, result.verdict) == (PatchState.PRESENT, verdict), result.reason
    kept = sealed.read("post/calc-1.patch", Role.SCORING).decode()
    listed = sealed.read("post/patch_gate.txt", Role.SCORING, Condition.GATE_STATUS).decode()
    whole = sealed.read("post/calc-1.unfiltered.patch", Role.SCORING).decode()
    for name in MACHINERY:
        assert f"b/{name}\n" in whole
        assert f"b/{name}\n" not in kept
        assert name in listed


def test_a07_the_history_of_the_repository_holds_the_base_and_nothing_else(calc: Bench, tmp_path: Path) -> None:
    with live_cell(calc, tmp_path / "a001", HISTORY) as (sealed, _):
        said = sealed.read("live/harness.stdout.log", Role.AUDIT).decode().split()
    assert said[:3] == ["1", "1", "0"], "one commit known, one in the object store, nothing lost, stashed or noted"
    assert said[3:] == [], "and the fix stands in no file"
