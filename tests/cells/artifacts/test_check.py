"""A directory that does not obey the contract is told what is wrong, file by file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from cells.artifacts import CONTRACT, Scope
from cells.artifacts.check import check_path, check_unit
from cells.errors import EvidenceError
from flows.cli.contract import command


def complete(root: Path, *phases: str) -> Path:
    """Every required file of an attempt, empty."""
    for row in CONTRACT.required(Scope.ATTEMPT):
        name = row.matcher.tail.replace("<task>", "t1").replace("**", "origin.json")
        if name.split("/")[0] in phases or "/" not in name or name.startswith("provenance"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(b"")
    return root


def kinds(root: Path) -> dict[str, str]:
    return {problem.path: problem.kind for problem in check_path(root)}


def test_a_complete_attempt_obeys(tmp_path: Path) -> None:
    assert check_path(complete(tmp_path, "start", "live", "post")) == []


def test_an_attempt_that_was_lost_before_the_post_run_side_obeys(tmp_path: Path) -> None:
    assert check_path(complete(tmp_path, "start", "live")) == []


def test_a_file_without_a_row_and_a_missing_one_are_named(tmp_path: Path) -> None:
    complete(tmp_path, "start", "live", "post")
    (tmp_path / "post/answers.json").write_bytes(b"")
    (tmp_path / "post/verdict.txt").unlink()
    assert kinds(tmp_path) == {"post/answers.json": "undeclared", "post/verdict.txt": "missing"}


@pytest.mark.parametrize(
    "name",
    [
        "attachments.json",
        "attachments/segment-0001/image-0001.png",
        "path_attachments.json",
        "github_context.json",
        "review_target.json",
        "review_target.patch",
        "provider.toml",
        "approval_request.json",
        "approval_decisions.json",
        "correction.json",
        "correction_consumption.json",
        "clarification_request.json",
        "clarification_answer.json",
        "clarification_consumption.json",
        "shell_interrupt.json",
        "rewind_snapshots/rewind_pending.json",
        "sessions.sqlite3",
        ".terminals/t1.log",
    ],
)
@pytest.mark.parametrize("folder", ["", "session/abc/"])
def test_an_assistant_only_file_in_a_measurement_is_a_violation_by_name(tmp_path: Path, name: str, folder: str) -> None:
    path = complete(tmp_path, "start", "live", "post") / "live/harness" / folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    assert kinds(tmp_path) == {f"live/harness/{folder}{name}": "assistant_only"}


def test_a_foreign_run_directory_is_searched_for_assistant_only_files(tmp_path: Path) -> None:
    for name in (
        "session.json",
        "transcripts/t1.log",
        "repos/.yuj_t1/.trace.jsonl",
        "repos/t1/metrics.json",
        "correction.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert kinds(tmp_path) == {"correction.json": "assistant_only"}


def test_a_link_or_a_pipe_in_an_attempt_is_no_file(tmp_path: Path) -> None:
    complete(tmp_path, "start", "live")
    os.mkfifo(tmp_path / "live/harness.stderr.log")
    (problem,) = check_unit(tmp_path, Scope.ATTEMPT)
    assert problem.kind == "not_a_file"


def test_a_study_is_checked_with_its_attempts(tmp_path: Path) -> None:
    attempt = tmp_path / "cells/t1--a--s01--0123/attempts/a001"
    attempt.mkdir(parents=True)
    complete(attempt, "start", "live", "post")
    (attempt / "post/extra").write_bytes(b"")
    for name in (
        "study.json",
        "plan.lock.json",
        "policy.json",
        "ledger.jsonl",
        "tasks/t1/task.toml",
        "tasks/t1/sealed/gold.patch",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"{}")
    (tmp_path / "notes.txt").write_bytes(b"")
    assert kinds(tmp_path) == {f"{attempt.relative_to(tmp_path)}/post/extra": "undeclared", "notes.txt": "undeclared"}


def test_the_command_ends_with_4_on_a_violation(tmp_path: Path) -> None:
    complete(tmp_path, "start", "live")
    assert CliRunner().invoke(command, ["--check", str(tmp_path)]).exit_code == 0
    (tmp_path / "live/extra").write_bytes(b"")
    ran = CliRunner().invoke(command, ["--check", str(tmp_path)])
    assert ran.exit_code == 4
    assert "undeclared" in ran.stdout and "live/extra" in ran.stdout


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (tmp_path / "link", tmp_path / "none"):
        with pytest.raises(EvidenceError, match="there is none"):
            check_path(path)
