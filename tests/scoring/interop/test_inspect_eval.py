"""Inspect: `smoke.eval` was written by inspect_ai 0.3.285 (mock model, two samples, two epochs, two scorers)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cells.errors import InputFileError
from scoring.columns import NAMES
from scoring.interop.inspect_eval import eval_rows
from scoring.interop.zip_members import ZipMembers
from tests.scoring.interop.refusals import FILES, Change, put, refused

SMOKE = FILES / "inspect/smoke.eval"
HEADER, SAMPLE = "header.json", "samples/a-1_epoch_1.json"


def repacked(path: Path, change: Change, member: str = SAMPLE) -> Path:
    """The log with one member changed, its members deflated."""
    log = ZipMembers(SMOKE)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in log.names:
            if name == HEADER or name.startswith("samples/"):
                document = json.loads(json.dumps(log.document(name).value, default=float))
                if name == member:
                    change(document)
                archive.writestr(name, json.dumps(document))
    return path


def first(path: Path, change: Change, member: str = SAMPLE) -> dict[str, Any]:
    """The row of the first sample of the changed log."""
    return eval_rows(repacked(path / "x.eval", change, member))[0]


def test_every_sample_and_epoch_is_a_row_with_the_headline_score() -> None:
    rows = eval_rows(SMOKE)
    assert [(row["task"], row["sample"], row["verdict"], row["resolved"]) for row in rows] == [
        ("a-1", 1, "resolved", 1),
        ("a-1", 2, "resolved", 1),
        ("a-2", 1, "unresolved", 0),
        ("a-2", 2, "unresolved", 0),
    ]
    assert all(tuple(row) == NAMES for row in rows)
    one = rows[0]
    assert (one["model"], one["arm"], one["harness"]) == ("mockllm/model", "mockllm/model", None)
    assert (one["input_tokens"], one["output_tokens"], one["cached_tokens"], one["cost"]) == (1, 3, None, None)
    assert (one["turns"], one["wall_s"], one["active_s"]) == (1, 0.339, None)
    assert (one["ended"], one["started_at"]) == ("completed", "2026-11-30T20:00:36.397038Z")


def test_tokens_of_caches_are_prompt_tokens_of_a_row(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "input_tokens_cache_read": 90, "input_tokens_cache_write": 5}
    row = first(tmp_path, put("model_usage", value={"m": usage | {"total_cost": 0.25}, "n": usage}))
    assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == (200, 180, 4)
    assert (row["cost"], row["currency"]) == (None, None)


@pytest.mark.parametrize(
    ("value", "resolved", "reason"),
    [
        ("C", 1, None),
        (1.0, 1, None),
        (True, 1, None),
        ("I", 0, "scored_incorrect"),
        (0, 0, "scored_incorrect"),
        ("N", 0, "no_answer"),
        ("P", None, "score: P"),
        (0.5, None, "score: 0.5"),
        ("yes", None, "score: yes"),
        ({"a": 1}, None, "a score of no or several values"),
    ],
)
def test_only_a_whole_score_is_a_verdict(value: Any, resolved: int | None, reason: str, tmp_path: Path) -> None:
    row = first(tmp_path, put("scores", "match", "value", value=value))
    assert (row["resolved"], row["reason"]) == (resolved, reason)


def test_an_error_or_an_invalidation_is_invalid_whatever_the_score(tmp_path: Path) -> None:
    row = first(tmp_path, put("error", value={"message": "x"}))
    assert (row["verdict"], row["resolved"], row["ended"], row["reason"]) == ("invalid", None, None, "sample_error")
    row = first(tmp_path, put("invalidation", value={"author": "x"}))
    assert (row["verdict"], row["resolved"], row["reason"]) == ("invalid", None, "invalidated")


@pytest.mark.parametrize(("limit", "ended"), [("token", "token_limit"), ("time", "wall_limit"), ("custom", None)])
def test_a_limit_is_a_word_of_ours_or_unknown(limit: str, ended: str | None, tmp_path: Path) -> None:
    row = first(tmp_path, put("limit", value={"type": limit, "limit": 5}))
    assert (row["ended"], row["verdict"]) == (ended, "resolved")


def test_several_scores_without_a_headline_are_no_verdict(tmp_path: Path) -> None:
    row = first(tmp_path, put("results", "headline", value=None), HEADER)
    assert row["resolved"] is None and "match" in row["reason"]


@pytest.mark.parametrize(
    ("member", "change", "field"),
    [
        (HEADER, put("version", value=3), "header.json: version"),
        (HEADER, put("version", value=None), "header.json: version"),
        (HEADER, put("eval", "run_id", value=None), "eval.run_id"),
        (HEADER, put("results", "completed_samples", value=5), "results.completed_samples"),
        (SAMPLE, put("scores", "match", "value", value=float("nan")), "scores.match.value"),
        (SAMPLE, put("scores", "match", "value", value=float("-inf")), "scores.match.value"),
        (SAMPLE, put("model_usage", "mockllm/model", "output_tokens", value=-1), "output_tokens"),
        (SAMPLE, put("model_usage", "mockllm/model", "total_cost", value=float("inf")), "total_cost"),
        (SAMPLE, put("total_time", value=-0.1), "total_time"),
        (SAMPLE, put("epoch", value=0), "epoch"),
        (SAMPLE, put("epoch", value=2), "id and epoch"),
        (SAMPLE, put("started_at", value="2026-11-30T20:00:36"), "started_at"),
    ],
)
def test_another_version_or_an_odd_value_is_refused(member: str, change: Any, field: str, tmp_path: Path) -> None:
    refused(eval_rows, repacked(tmp_path / "x.eval", change, member), field)


def test_a_log_that_never_ended_or_has_no_samples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", "{}")
    refused(eval_rows, path, "header.json")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, json.dumps(ZipMembers(SMOKE).document(HEADER).value, default=float))
    refused(eval_rows, path, "samples")


def test_half_an_archive_and_a_changed_byte_are_refused(tmp_path: Path) -> None:
    content = SMOKE.read_bytes()
    path = tmp_path / "x.eval"
    path.write_bytes(content[: len(content) // 2])
    refused(eval_rows, path, "ZIP")
    position = content.index(b"samples/a-1_epoch_1.json") + 60
    path.write_bytes(content[:position] + bytes([content[position] ^ 255]) + content[position + 1 :])
    refused(eval_rows, path, "samples/a-1_epoch_1.json")


def test_a_member_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(HEADER, "{}")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(HEADER, "{}")
    with pytest.raises(InputFileError, match="stands twice"):
        eval_rows(path)
