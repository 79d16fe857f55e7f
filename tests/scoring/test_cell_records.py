"""Metrics, checkpoint, noise and the row of the cells table: from our own records; what nobody told is null."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.design.study_model import NoiseSection
from cells.errors import EvidenceError
from scoring.columns import COLUMNS, NAMES
from scoring.metrics import checkpoint_document, metrics_document
from scoring.noise import noise_document, reasons_of, summarize
from scoring.records import read_cell, read_rows
from scoring.score import fraction_of
from scoring.table import cell_row, write_table
from scoring.verify import Passed
from tests.scoring.attempts import live_facts, sealed_attempt

INTERFACE = (
    "study, cell_id, attempt, task, repository, arm, harness, model, input_limit, sample, order, outcome, ended, "
    "patch, verdict, reason, resolved, f2p_passed, f2p_total, f2p_fraction, p2p_passed, p2p_total, turns, requests, "
    "input_tokens, cached_tokens, output_tokens, cost, currency, wall_s, active_s, run_s, verify_s, cpu_s, "
    "memory_peak_mb, cpu_throttled_s, oom_kills, host_load, contaminated, exposure, patch_bytes, patch_files, "
    "patch_sha256, started_at, runtime_sha256, bundle_sha256"
)


def lines(*rows: dict[str, Any]) -> bytes:
    """Rows as a record."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def turn(**fields: Any) -> dict[str, Any]:
    """A trace row of a turn."""
    return {"event": "turn", "role": "main", "prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 2, **fields}


def usage(cached: int | None) -> dict[str, Any]:
    """A usage row."""
    return {"event": "response_usage", "usage": {"input": 10, "cached": cached, "output": 2}}


def test_metrics_group_what_the_records_say(tmp_path: Path) -> None:
    trace = lines(
        turn(), turn(), turn(role="side", completion_tokens=None), {"event": "length_continue"},
        {"event": "tools_activated", "new": ["a", "b"]},
        {"event": "model_fallback", "lane": "main", "target_model": "m2"},
    )  # fmt: skip
    live = {"trace.jsonl": trace, "usage.jsonl": lines(usage(4), usage(6), {"event": "session_usage"})}
    sealed = sealed_attempt(tmp_path / "a001", live=live)
    found = metrics_document(sealed, read_cell(sealed))
    assert found["tokens_by_role"] == {
        "main": {"responses": 2, "input": 20, "cached": 8, "output": 4},
        "side": {"responses": 1, "input": 10, "cached": 4, "output": None},
    }
    assert found["prompt_cache"] == {"observed": 2, "unobserved": 0, "hit_ratio": 0.5}
    assert found["length_continuations"] == 1 and found["tool_loading"]["new_tools"] == 2
    assert found["model_fallback"] == {"changed": True, "transitions": 1, "roles": ["main"], "targets": ["m2"]}
    assert found["totals"] is None and found["subagents"]["calls"] is None


def test_a_missing_cache_count_makes_the_ratio_unknown(tmp_path: Path) -> None:
    sealed = sealed_attempt(tmp_path / "a001", live={"usage.jsonl": lines(usage(4), usage(None))})
    assert metrics_document(sealed, read_cell(sealed))["prompt_cache"] == {
        "observed": 1, "unobserved": 1, "hit_ratio": None,
    }  # fmt: skip


def test_no_response_gives_no_ratio(tmp_path: Path) -> None:
    sealed = sealed_attempt(tmp_path / "a001")
    found = metrics_document(sealed, read_cell(sealed))
    assert found["prompt_cache"]["hit_ratio"] is None and found["tokens_by_role"] == {}
    assert checkpoint_document(sealed, read_cell(sealed))["status"] == "completed"


def test_a_torn_last_row_is_no_row(tmp_path: Path) -> None:
    sealed = sealed_attempt(tmp_path / "a001", live={"trace.jsonl": lines(turn()) + b'{"event": "tu'})
    assert len(read_rows(sealed, "live/trace.jsonl")) == 1
    broken = sealed_attempt(tmp_path / "a002", live={"trace.jsonl": b"{\n"})
    with pytest.raises(EvidenceError, match="not JSON"):
        read_rows(broken, "live/trace.jsonl")


def sample(
    t: float, cpu: float | None = 0.1, throttled: float | None = 0.0, load: float | None = 1.0
) -> dict[str, Any]:
    """A noise row."""
    cell = {"cpu_s": cpu, "throttled_s": throttled, "memory_peak_mb": 10.0 + t, "oom_kills": 0, "pids": 3}
    return {"t_mono_s": t, "cell": cell, "host": {"load_1": load, "cores": 2}}


def test_noise_is_summed_up_and_judged_by_the_study_s_limits(tmp_path: Path) -> None:
    rows = lines(sample(0.0), sample(5.0, throttled=1.0, load=6.0), sample(10.0, throttled=3.0, load=8.0))
    sealed = sealed_attempt(tmp_path / "a001", live={"noise.jsonl": rows})
    quiet = noise_document(sealed, NoiseSection())
    assert quiet["contaminated"] is False and quiet["summary"]["cpu_throttled"] == 0.3
    assert quiet["summary"]["host_load_per_core"] == 2.5 and quiet["summary"]["memory_peak_mb"] == 20.0
    strict = noise_document(sealed, NoiseSection(max_cpu_throttled=0.2, max_host_load_per_core=2.0))
    assert strict["contaminated"] and len(strict["reasons"]) == 2
    assert not noise_document(sealed, NoiseSection(max_cpu_throttled=0.3, max_host_load_per_core=2.5))["contaminated"]


def test_unknown_noise_contaminates_nothing() -> None:
    for rows in ([], [sample(1.0, None, None, None)], [{"t_mono_s": 1.0}]):
        summary = summarize(rows)
        assert summary["cpu_throttled"] is None and summary["host_load_per_core"] is None
        assert reasons_of(summary, NoiseSection(max_cpu_throttled=0.0, max_host_load_per_core=0.1)) == []


@given(total=st.integers(0, 500), data=st.data())
def test_fractions_are_exact(total: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, total))
    found = fraction_of(Passed(passed=passed, total=total))
    assert found is not None
    above, below = map(int, found.split("/"))
    assert above * total == passed * below if total else (above, below) == (0, 1)
    assert fraction_of(None) is None


def test_the_columns_are_those_of_the_interface() -> None:
    more = {"verification"}
    assert [name for name in NAMES if name not in more] == INTERFACE.split(", ")
    assert all(column.meaning for column in COLUMNS)


def test_a_row_of_a_lost_attempt_knows_what_it_knows(tmp_path: Path) -> None:
    budget = {"turns": 3, "requests": 4, "cost": "0.0123456", "currency": "USD", "input_tokens": None}
    sealed = sealed_attempt(tmp_path / "a001", facts=live_facts("infra_lost", budget=budget))
    row = cell_row(sealed.root)
    assert tuple(row) == NAMES
    assert row["ended"] == "infra_lost" and row["resolved"] is None and row["f2p_fraction"] is None
    assert (row["turns"], row["cost"], row["input_tokens"]) == (3, "0.0123456", None)
    write_table([row], tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.column("cost").to_pylist() == [Decimal("0.012345600000")]
    assert table.schema.metadata[b"assay.table"] == b"cells"


@pytest.mark.parametrize("row", [{"unknown": 1}, {"turns": "three"}, {"cost": "much"}])
def test_a_row_that_does_not_fit_is_refused(row: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(EvidenceError):
        write_table([row], tmp_path / "t.parquet")
