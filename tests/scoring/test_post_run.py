"""Sealed attempts of real cells, taken through all post-run steps on a real engine; and what a crash between steps
leaves."""

from __future__ import annotations

import base64
import json
import shutil
import threading
from pathlib import Path

import pytest

from cells.artifacts import CONTRACT, Role
from cells.attempt import SealedAttempt, open_sealed
from cells.errors import InfraFailure
from cells.outcome import PatchState, Verdict
from scoring.collected import read_collected
from scoring.post_run import can_resume
from scoring.regrade import regrade
from scoring.table import cell_row, write_table
from scoring.tree_archive import regular_files
from scoring.verify import read_verified
from tests.scoring.calc_task import RIGHT, Bench
from tests.scoring.live_cells import live_cell, post

pytestmark = pytest.mark.engine
FIX = f"echo {base64.b64encode(RIGHT).decode()} | base64 -d > src/calc.py"
PLANT = """
printf 'import os\\nos._exit(0)\\n' | tee conftest.py sitecustomize.py tests/conftest.py > planted.pth
mkdir planted-1.0.dist-info; echo '[pytest11]' > planted-1.0.dist-info/entry_points.txt
printf '[pytest]\\naddopts = -p planted\\n' > pytest.ini
"""


@pytest.mark.parametrize(
    ("script", "limits", "outcome", "patch", "verdict", "reason"),
    [
        (FIX, {}, "completed", PatchState.PRESENT, Verdict.RESOLVED, "tests_passed"),
        ("echo '# wrong' >> src/calc.py", {}, "completed", PatchState.PRESENT, Verdict.UNRESOLVED, "tests_failed"),
        ("true", {}, "empty_patch", PatchState.EMPTY, Verdict.UNRESOLVED, "empty_patch"),
        ("false", {}, "harness_error", PatchState.EMPTY, Verdict.UNRESOLVED, "empty_patch"),
        (f"{FIX}; sleep 1000", {"wall_s": 2.0}, "wall_limit", PatchState.PRESENT, Verdict.RESOLVED, "tests_passed"),
        (f"{FIX}; {PLANT}", {}, "completed", PatchState.PRESENT, Verdict.RESOLVED, "tests_passed"),
        (PLANT, {}, "completed", PatchState.PRESENT, Verdict.UNRESOLVED, "tests_failed"),
        (f"{FIX}; ln -s /etc/passwd l", {}, "completed", PatchState.REJECTED, Verdict.UNRESOLVED, "patch_rejected"),
        (f"{FIX}; head -c 40000000 /dev/urandom > junk", {}, "completed", PatchState.REJECTED, Verdict.UNRESOLVED,
         "patch_rejected"),
        (f"{FIX}; git add -A; git commit -qm x; rm -rf .git", {}, "completed", PatchState.PRESENT, Verdict.RESOLVED,
         "tests_passed"),
        (f"{FIX}; (trap '' TERM HUP; while :; do echo x >> late; sleep 0.01; done) & sleep 0.3", {}, "completed",
         PatchState.PRESENT, Verdict.RESOLVED, "tests_passed"),
        (f"{FIX}; chmod -R 000 .", {}, "sandbox_broken", PatchState.PRESENT, Verdict.RESOLVED, "tests_passed"),
    ],
    ids=["right", "wrong", "nothing", "error", "timeout after the fix", "hooks beside the fix", "hooks alone",
         "link out", "too large", "history and .git gone", "late writer", "unreadable"],
)  # fmt: skip
def test_every_end_of_a_cell_has_its_verdict(
    calc: Bench, tmp_path: Path, script: str, limits: dict[str, float], outcome: str, patch: PatchState,
    verdict: Verdict, reason: str,
) -> None:  # fmt: skip
    with live_cell(calc, tmp_path / "a001", script, **limits) as (sealed, collector):
        result = post(calc, sealed, collector)
    assert (result.outcome, result.patch, result.verdict, result.reason) == (outcome, patch, verdict, reason)
    assert required_names() <= set(open_sealed(sealed.root).names())
    assert sealed.read("post/verdict.txt", Role.SCORING).split(b"\n")[0].decode() == verdict.value
    row = cell_row(sealed.root)
    assert (row["outcome"], row["patch"], row["verdict"], row["resolved"]) == (
        outcome, patch.value, verdict.value, int(verdict is Verdict.RESOLVED),
    )  # fmt: skip


def required_names() -> set[str]:
    """The post-run files that every collected attempt must have."""
    return {
        row.pattern.replace("<task>", "calc-1")
        for row in CONTRACT
        if row.scope == "attempt" and row.required and row.pattern.startswith("post/")
    }


@pytest.fixture(scope="module")
def finished(calc: Bench, tmp_path_factory: pytest.TempPathFactory) -> SealedAttempt:
    """A finished attempt with a right fix, some ignored junk and a name that is not UTF-8."""
    script = f"{FIX}; printf x > \"$(printf 'odd\\377')\"; mkdir -p v/.git; touch v/.git/HEAD v/x; mkfifo pipe"
    with live_cell(calc, tmp_path_factory.mktemp("done") / "a001", script) as (sealed, collector):
        post(calc, sealed, collector)
    return sealed


def test_the_collection_holds_tree_patch_and_what_is_neither(finished: SealedAttempt) -> None:
    collected = read_collected(finished)
    assert collected.is_exact and collected.archive.complete
    assert {change.path for change in collected.facts.changes} == {"src/calc.py", "odd%FF", "v/x"}
    assert {entry.path: entry.reason for entry in collected.facts.left_out} == {
        ".git": "git", "v/.git": "git", "pipe": "fifo",
    }  # fmt: skip
    files = dict(regular_files(finished.read("post/tree.tar.zst", Role.AUDIT)))
    assert files[b"src/calc.py"] == RIGHT and files[b"odd\xff"] == b"x"


def test_scores_are_exact_and_in_the_forms_of_others(finished: SealedAttempt) -> None:
    result = json.loads(finished.read("post/score/score_result.json", Role.SCORING))
    assert result["f2p"] == {"passed": 1, "total": 1, "fraction": "1/1", "zero_total": False}
    assert result["p2p"] == {"passed": 2, "total": 2, "fraction": "1/1", "zero_total": False}
    (prediction,) = json.loads(finished.read("post/score/preds.json", Role.SCORING)).values()
    assert set(prediction) == {"instance_id", "model_name_or_path", "model_patch"}
    report = json.loads(finished.read("post/score/calc-1.json", Role.SCORING))["calc-1"]
    assert report["resolved"] and report["patch_successfully_applied"]
    assert report["tests_status"]["FAIL_TO_PASS"] == {"success": ["tests.test_calc::test_add_of_two"], "failure": []}


def test_a_crash_after_any_file_resumes_without_the_collector(
    finished: SealedAttempt, calc: Bench, tmp_path: Path
) -> None:
    """The files of post/ appear one by one; a kill between any two of them loses nothing but time."""
    rows = [json.loads(line) for line in finished.read("post/journal.jsonl", Role.AUDIT).splitlines()]
    written = [row["name"] for row in rows]
    assert written[-1] == "post/verdict.txt"
    for count in range(written.index("post/collect.json") + 1, len(written)):
        root = tmp_path / f"after{count}" / "a001"
        shutil.copytree(finished.root, root)
        for name in written[count:]:
            (root / name).unlink()
        assert can_resume(root)
        sealed = open_sealed(root)
        assert post(calc, sealed, None).verdict is Verdict.RESOLVED
        for name in set(written) - {"post/verify.json", "post/sealed_verify.log", "post/report.xml"}:
            if name != "post/score/score_result.json":  # it holds the digest of verify.json, which holds times
                assert sealed.read(name, Role.AUDIT) == finished.read(name, Role.AUDIT), name
        assert read_verified(sealed).tests == read_verified(finished).tests


@pytest.mark.parametrize("name", ["collect.json", "calc-1.unfiltered.patch", "tree.tar.zst", "git.status.txt"])
def test_an_attempt_whose_collection_is_not_whole_is_lost(
    name: str, finished: SealedAttempt, calc: Bench, tmp_path: Path
) -> None:
    root = tmp_path / "a001"
    shutil.copytree(finished.root, root)
    (root / "post" / name).unlink()
    assert not can_resume(root)
    if name == "collect.json":
        with pytest.raises(InfraFailure, match="not_collected"):
            post(calc, open_sealed(root), None)


def test_a_flipped_byte_in_the_patch_is_no_collection(finished: SealedAttempt, tmp_path: Path) -> None:
    root = tmp_path / "a001"
    shutil.copytree(finished.root, root)
    path = root / "post" / "calc-1.unfiltered.patch"
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert not can_resume(root)


def test_a_regrade_verifies_again_and_touches_nothing(finished: SealedAttempt, calc: Bench, tmp_path: Path) -> None:
    names = finished.names()
    found = regrade(
        finished.root, tmp_path / "scratch", calc.task, calc.image, calc.sandboxes, version=2, stop=threading.Event()
    )
    assert finished.names() == names
    assert found.result.verdict is Verdict.RESOLVED and found.changed_tests == {}
    assert (found.before.version, found.after.version) == (1, 2)
    for scope, members in (("verification", found.verification), ("rescore", found.scores)):
        assert {"verdict.txt"} < members.keys()
        for name in members:
            CONTRACT.row_for(name, scope)


def test_the_row_of_a_cell_fits_the_table(finished: SealedAttempt, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_table([cell_row(finished.root)], tmp_path / "cells.parquet")
    table = pq.read_table(tmp_path / "cells.parquet")
    assert table.num_rows == 1 and table.column("f2p_fraction").to_pylist() == [1.0]
    assert table.schema.field("verify_s").metadata[b"unit"] == b"s"
    assert table.column("cost").to_pylist() == [None]
