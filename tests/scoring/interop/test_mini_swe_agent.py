"""mini-swe-agent: the fixtures were written by version 2.4.6 with its deterministic model (prompts and times cut)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cells.errors import InputFileError
from scoring.columns import NAMES
from scoring.interop.mini_swe_agent import batch_rows, trajectory_rows
from tests.scoring.interop.refusals import FILES, changed, put, refused

NIGHT = FILES / "mini_swe_agent/night"
ONE = NIGHT / "a-1/a-1.traj.json"


def test_a_batch_says_how_each_run_ended_and_never_a_verdict() -> None:
    rows = batch_rows(NIGHT)
    assert [(row["task"], row["ended"], row["outcome"], row["reason"]) for row in rows] == [
        ("a-1", "completed", "completed", None),
        ("a-2", "turn_limit", "turn_limit", None),
        ("a-3", None, None, "exit_status: IndexError"),
        ("a-4", "cost_limit", "cost_limit", None),
        ("a-5", None, None, "no_trajectory"),
    ]
    assert {(row["verdict"], row["resolved"]) for row in rows} == {(None, None)}
    assert {row["study"] for row in rows} == {"night"}
    assert all(tuple(row) == NAMES for row in rows)


def test_a_trajectory_gives_spending_and_patch() -> None:
    (row,) = trajectory_rows(ONE)
    assert (row["requests"], row["turns"], row["cost"], row["currency"]) == (2, 2, "2.0", "USD")
    assert (row["harness"], row["model"]) == ("mini-swe-agent", "deterministic")
    assert (row["patch"], row["patch_bytes"]) == ("present", len("diff --git a/x b/x\n"))
    assert (row["study"], row["input_tokens"], row["wall_s"]) == ("night", None, None)


def test_a_run_that_submitted_nothing_is_an_empty_patch_and_one_that_did_not_submit_is_unknown(tmp_path: Path) -> None:
    (row,) = trajectory_rows(changed(ONE, tmp_path / "x.traj.json", put("info", "submission", value="")))
    assert (row["outcome"], row["patch"], row["resolved"]) == ("empty_patch", "empty", None)
    assert batch_rows(NIGHT)[1]["patch"] is None


@pytest.mark.parametrize("status", ["", None, "submitted", "KeyboardInterrupt"])
def test_an_exit_status_that_is_no_word_of_ours_is_null_with_its_reason(status: str | None, tmp_path: Path) -> None:
    (row,) = trajectory_rows(changed(ONE, tmp_path / "x.traj.json", put("info", "exit_status", value=status)))
    assert (row["ended"], row["outcome"], row["patch"], row["resolved"]) == (None, None, None, None)
    assert (status or "no exit_status") in row["reason"]


def test_a_limit_that_no_number_proves_is_null(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["info"]["exit_status"] = "LimitsExceeded"

    (row,) = trajectory_rows(changed(ONE, tmp_path / "x.traj.json", change))
    assert (row["ended"], row["reason"]) == (None, "exit_status: LimitsExceeded")


def test_a_cost_of_nothing_beside_calls_is_unknown(tmp_path: Path) -> None:
    path = changed(ONE, tmp_path / "x.traj.json", put("info", "model_stats", "instance_cost", value=0.0))
    (row,) = trajectory_rows(path)
    assert (row["cost"], row["currency"], row["requests"]) == (None, None, 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("trajectory_format", value="mini-swe-agent-1.2"), "trajectory_format"),
        (put("trajectory_format", value=None), "trajectory_format"),
        (put("info", "model_stats", "instance_cost", value=float("nan")), "info.model_stats.instance_cost"),
        (put("info", "model_stats", "instance_cost", value=float("inf")), "info.model_stats.instance_cost"),
        (put("info", "model_stats", "instance_cost", value=-0.5), "info.model_stats.instance_cost"),
        (put("info", "model_stats", "api_calls", value=-1), "info.model_stats.api_calls"),
        (put("info", "model_stats", "api_calls", value=1.5), "info.model_stats.api_calls"),
        (put("info", "model_stats", "api_calls", value=True), "info.model_stats.api_calls"),
        (put("info", "submission", value=["x"]), "info.submission"),
        (put("info", value=None), "info"),
        (put("messages", 0, "role", value=None), "messages[0].role"),
    ],
)
def test_what_is_not_as_the_tool_writes_it_is_refused(change: Any, field: str, tmp_path: Path) -> None:
    refused(trajectory_rows, changed(ONE, tmp_path / "x.traj.json", change), field)


def test_an_instance_with_two_trajectories_is_refused(tmp_path: Path) -> None:
    shutil.copytree(NIGHT, tmp_path / "night")
    shutil.copy(ONE, tmp_path / "night/again.traj.json")
    refused(batch_rows, tmp_path / "night", "instance_id")


def test_predictions_that_are_not_what_was_submitted_are_refused(tmp_path: Path) -> None:
    shutil.copytree(NIGHT, tmp_path / "night")
    predictions = tmp_path / "night/preds.json"
    changed(NIGHT / "preds.json", predictions, put("a-1", "model_patch", value="another"))
    with pytest.raises(InputFileError, match=r"preds\.json: a-1\.model_patch"):
        batch_rows(tmp_path / "night")
