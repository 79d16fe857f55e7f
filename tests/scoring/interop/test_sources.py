"""Files of other tools are told by their shape, and stand in one table with ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from cells.errors import EvidenceError, InputFileError
from flows.cli.table import command
from scoring.interop.harbor import result_rows
from scoring.interop.inspect_eval import eval_folder_rows, eval_rows
from scoring.interop.mini_swe_agent import batch_rows, trajectory_rows
from scoring.interop.sources import foreign_reader
from scoring.interop.swebench import instance_report_rows, prediction_rows, report_tree_rows, run_report_rows
from scoring.interop.terminal_bench import run_rows
from scoring.table import write_table
from tests.scoring.interop.refusals import FILES

SHAPES: list[tuple[str, Any]] = [
    ("swebench/with-guide.r1.json", run_report_rows),
    ("swebench/preds.jsonl", prediction_rows),
    ("swebench/runs/r1", report_tree_rows),
    ("swebench/runs/r1/with-guide", report_tree_rows),
    ("swebench/runs/r1/with-guide/acme__tool-1/report.json", instance_report_rows),
    ("mini_swe_agent/night", batch_rows),
    ("mini_swe_agent/night/preds.json", prediction_rows),
    ("mini_swe_agent/night/a-1/a-1.traj.json", trajectory_rows),
    ("inspect/smoke.eval", eval_rows),
    ("inspect", eval_folder_rows),
    ("harbor/nightly", result_rows),
    ("harbor/nightly/result.json", result_rows),
    ("harbor/nightly/two__ccccccc/result.json", result_rows),
    ("terminal_bench/tb-1", run_rows),
    ("terminal_bench/tb-1/results.json", run_rows),
]


@pytest.mark.parametrize(("name", "reader"), SHAPES)
def test_the_shape_tells_the_reader_and_its_rows_fit_the_table(name: str, reader: Any, tmp_path: Path) -> None:
    assert foreign_reader(FILES / name) == reader
    rows = reader(FILES / name)
    write_table(rows, tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").num_rows == len(rows) > 0


def test_json_of_no_known_shape_is_refused_with_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"hello": 1}))
    with pytest.raises(InputFileError, match="hello"):
        foreign_reader(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": 1, "a": 2}', b"\xff", b'{"a":' * 20_000])
def test_what_is_no_json_object_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(InputFileError, match=r"x\.json"):
        foreign_reader(path)


def test_a_mixture_becomes_one_table_and_a_file_given_twice_counts_once(tmp_path: Path) -> None:
    earlier, out = tmp_path / "earlier.parquet", tmp_path / "cells.parquet"
    write_table(run_report_rows(FILES / "swebench/with-guide.r1.json"), earlier)
    paths = [str(FILES / name) for name, _ in SHAPES if name != "mini_swe_agent/night/preds.json"]
    result = CliRunner().invoke(command, [*paths, str(earlier), "--out", str(out), "--json"], catch_exceptions=False)
    document = json.loads(result.stdout)
    given = {one["path"]: one["rows"] for one in document.get("data", document)["others"]}
    assert set(given) == set(paths)
    table = pq.read_table(out)
    distinct = {(row["study"], row["attempt"]) for row in table.to_pylist()}
    assert table.num_rows == len(distinct)
    assert table.column("resolved").null_count > 0


def test_two_files_that_tell_of_one_attempt_are_refused_together(tmp_path: Path) -> None:
    paths = [str(FILES / "mini_swe_agent" / name) for name in ("night", "night/preds.json")]
    result = CliRunner().invoke(command, [*paths, "--out", str(tmp_path / "cells.parquet")])
    assert isinstance(result.exception, EvidenceError)
    assert "night/None/a-1" in str(result.exception)
