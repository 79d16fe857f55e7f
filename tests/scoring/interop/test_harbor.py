"""Harbor: the job `nightly` was written by the result models of Harbor 0.26."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from scoring.columns import NAMES
from scoring.interop.harbor import result_rows
from tests.scoring.interop.refusals import FILES, changed, put, refused

NIGHTLY = FILES / "harbor/nightly"
ONE = NIGHTLY / "one__aaaaaaa/result.json"


def test_every_trial_of_a_job_is_a_row_and_no_unknown_failure_a_score() -> None:
    rows = {row["attempt"][:-9]: row for row in result_rows(NIGHTLY) if row["attempt"] != "one__bbbbbbb"}
    assert {name: (row["verdict"], row["resolved"], row["reason"], row["ended"]) for name, row in rows.items()} == {
        "one": ("resolved", 1, None, "completed"),
        "two": ("unresolved", 0, "reward_0", "wall_limit"),
        "three": ("not_run", None, "exception: EnvironmentStartTimeoutError", None),
        "four": ("invalid", None, "exception: SomethingNewError", None),
        "five": (None, None, "reward: 0.5", "completed"),
    }
    assert all(tuple(row) == NAMES for row in rows.values())


def test_samples_of_a_task_are_numbered_by_their_start_and_of_a_trial_alone_unknown() -> None:
    rows = {row["attempt"]: row["sample"] for row in result_rows(NIGHTLY)}
    assert (rows["one__bbbbbbb"], rows["one__aaaaaaa"]) == (1, 2)
    assert result_rows(ONE)[0]["sample"] is None
    assert result_rows(ONE.parent) == result_rows(ONE)


def test_a_trial_gives_spending_and_times() -> None:
    (row,) = result_rows(ONE)
    assert (row["study"], row["task"], row["arm"]) == ("nightly", "acme/one", "terminus-2__m-1")
    assert (row["harness"], row["model"]) == ("terminus-2", "m-1")
    assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == (100, 60, 7)
    assert (row["cost"], row["currency"]) == ("0.25", "USD")
    assert (row["wall_s"], row["run_s"], row["verify_s"]) == (100.0, 60.0, 25.0)
    assert row["started_at"] == "2026-01-02T03:07:25Z"
    assert row["turns"] is None


def test_steps_are_summed_and_their_exceptions_count(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        agent = document["agent_result"]
        document["agent_result"] = None
        error = {"exception_type": "RewardFileNotFoundError"}
        document["step_results"] = [
            {"step_name": "a", "agent_result": agent},
            {"step_name": "b", "agent_result": agent, "exception_info": error},
        ]

    (row,) = result_rows(changed(ONE, tmp_path / "t/result.json", change))
    assert (row["input_tokens"], row["cost"]) == (200, "0.50")
    assert (row["verdict"], row["resolved"]) == ("invalid", None)


@pytest.mark.parametrize(
    ("rewards", "verdict", "reason"),
    [
        ({"reward": 1, "style": 0}, "resolved", None),
        ({"accuracy": 1}, "resolved", None),
        ({"a": 1, "b": 1}, None, "several rewards, none of them `reward`: a, b"),
        ({}, None, "no_reward"),
        ({"reward": 2}, None, "reward: 2"),
        ({"reward": -1}, None, "reward: -1"),
    ],
)
def test_only_a_whole_reward_is_a_verdict(rewards: Any, verdict: str | None, reason: str, tmp_path: Path) -> None:
    path = changed(ONE, tmp_path / "t/result.json", put("verifier_result", "rewards", value=rewards))
    (row,) = result_rows(path)
    assert (row["verdict"], row["reason"]) == (verdict, reason)


def test_a_reward_that_harbor_calls_not_valid_is_no_score(tmp_path: Path) -> None:
    (row,) = result_rows(changed(ONE, tmp_path / "t/result.json", put("reward_valid", value=False)))
    assert (row["verdict"], row["resolved"], row["reason"]) == ("invalid", None, "reward_not_valid")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("schema_version", value=2), "schema_version"),
        (put("verifier_result", "rewards", "reward", value=float("nan")), "verifier_result.rewards.reward"),
        (put("verifier_result", "rewards", "reward", value=float("inf")), "verifier_result.rewards.reward"),
        (put("verifier_result", "rewards", "reward", value="1"), "verifier_result.rewards.reward"),
        (put("agent_result", "n_output_tokens", value=-7), "agent_result.n_output_tokens"),
        (put("agent_result", "n_cache_tokens", value=101), "agent_result.n_cache_tokens"),
        (put("agent_result", "cost_usd", value=-0.01), "agent_result.cost_usd"),
        (put("finished_at", value="2026-01-01T00:00:00Z"), "finished_at"),
        (put("started_at", value="yesterday"), "started_at"),
        (put("task_name", value=None), "task_name"),
        (put("exception_info", value={}), "exception_info.exception_type"),
    ],
)
def test_another_version_or_an_odd_value_is_refused(change: Any, field: str, tmp_path: Path) -> None:
    refused(result_rows, changed(ONE, tmp_path / "t/result.json", change), field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("n_total_trials", value=5), "n_total_trials"),
        (put("n_total_trials", value=None), "n_total_trials"),
        (put("stats", "n_completed_trials", value=-1), "stats.n_completed_trials"),
        (put("schema_version", value="2"), "schema_version"),
    ],
)
def test_a_job_whose_counts_are_not_those_of_its_trials_is_refused(change: Any, field: str, tmp_path: Path) -> None:
    shutil.copytree(NIGHTLY, tmp_path / "nightly")
    refused(result_rows, changed(NIGHTLY / "result.json", tmp_path / "nightly/result.json", change), field)


def test_a_job_that_lost_a_trial_or_has_one_twice_is_refused(tmp_path: Path) -> None:
    shutil.copytree(NIGHTLY, tmp_path / "nightly")
    shutil.copy(ONE, tmp_path / "nightly/five__fffffff/result.json")
    refused(result_rows, tmp_path / "nightly/result.json", "trial_name")
    shutil.rmtree(tmp_path / "nightly/five__fffffff")
    refused(result_rows, tmp_path / "nightly/result.json", "n_completed_trials")
