"""terminal-bench: the run `tb-1` was written by the result models of version 0.2.18."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scoring.columns import NAMES
from scoring.interop.terminal_bench import run_rows
from tests.scoring.interop.refusals import FILES, changed, put, refused

RUN = FILES / "terminal_bench/tb-1"
RESULTS = RUN / "results.json"


def test_every_trial_is_a_row_and_no_unknown_failure_a_score() -> None:
    rows = run_rows(RUN)
    assert [(row["task"], row["sample"], row["resolved"], row["reason"], row["ended"]) for row in rows] == [
        ("a", 1, 1, None, "completed"),
        ("a", 2, 0, "tests_failed", "completed"),
        ("b", 1, 0, "tests_failed", "wall_limit"),
        ("b", 2, None, "test_timeout", "completed"),
        ("c", 1, None, "no_test_results", "completed"),
        ("c", 2, None, "unknown", None),
    ]
    assert {row["verdict"] for row in rows[3:]} == {"invalid"}
    assert all(tuple(row) == NAMES for row in rows)


def test_a_trial_gives_tokens_times_and_what_the_run_says_of_itself() -> None:
    row = run_rows(RESULTS)[0]
    assert (row["study"], row["harness"], row["model"], row["arm"]) == ("tb-1", "terminus", "m-1", "terminus__m-1")
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"], row["cost"]) == (10, 2, None, None)
    assert (row["wall_s"], row["run_s"], row["verify_s"]) == (60.0, 40.0, None)
    assert (row["f2p_total"], row["p2p_total"], row["turns"]) == (None, None, None)


def test_results_without_metadata_name_no_agent(tmp_path: Path) -> None:
    row = run_rows(changed(RESULTS, tmp_path / "run/results.json", lambda _: None))[0]
    assert (row["study"], row["arm"], row["harness"], row["model"]) == ("run", None, None, None)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("n_resolved", value=7), "n_resolved"),
        (put("n_resolved", value=-1), "n_resolved"),
        (put("accuracy", value=float("nan")), "accuracy"),
        (put("accuracy", value=1.5), "accuracy"),
        (put("results", 0, "failure_mode", value="new_failure"), "results[0].failure_mode"),
        (put("results", 0, "failure_mode", value=None), "results[0].failure_mode"),
        (put("results", 0, "parser_results", "t1", value="skipped"), "results[0].parser_results.t1"),
        (put("results", 0, "parser_results", "t1", value="failed"), "results[0].is_resolved"),
        (put("results", 1, "parser_results", "t2", value="passed"), "results[1].is_resolved"),
        (put("results", 0, "total_input_tokens", value=-1), "results[0].total_input_tokens"),
        (put("results", 0, "total_output_tokens", value=float("inf")), "results[0].total_output_tokens"),
        (put("results", 0, "trial_ended_at", value="2026-01-01T00:00:00+00:00"), "results[0].trial_ended_at"),
        (put("results", 1, "trial_name", value="a.1-of-2.tb-1"), "trial_name"),
        (put("results", value={}), "results"),
    ],
)
def test_what_the_tool_would_not_write_is_refused(change: Any, field: str, tmp_path: Path) -> None:
    refused(run_rows, changed(RESULTS, tmp_path / "run/results.json", change), field)
