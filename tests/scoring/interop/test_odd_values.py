"""Law of every reader: whatever stands at one place of a file, its rows fit the table, or file and field are
refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cells.errors import InputFileError
from scoring.columns import COLUMNS
from scoring.interop.harbor import result_rows
from scoring.interop.mini_swe_agent import trajectory_rows
from scoring.interop.swebench import instance_report_rows, run_report_rows
from scoring.interop.terminal_bench import run_rows
from scoring.table import rows_table
from tests.scoring.interop.refusals import FILES, changed, put

CASES: list[tuple[Any, str]] = [
    (run_report_rows, "swebench/with-guide.r1.json"),
    (instance_report_rows, "swebench/runs/r1/with-guide/acme__tool-2/report.json"),
    (trajectory_rows, "mini_swe_agent/night/a-1/a-1.traj.json"),
    (result_rows, "harbor/nightly/one__aaaaaaa/result.json"),
    (result_rows, "harbor/nightly/result.json"),
    (run_rows, "terminal_bench/tb-1/results.json"),
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e300, 10**30, -1, 0, 0.5, "", "x", [], {}, [[]]]),
    st.integers(),
    st.text(max_size=5),
    st.just("\ud800"),
)


def places(value: Any, *before: Any) -> Iterator[tuple[Any, ...]]:
    """Every place of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in inner:
        yield (*before, key)
        yield from places(member, *before, key)


@pytest.mark.parametrize(("read", "name"), CASES)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_odd_value_anywhere_is_refused_or_harmless(read: Any, name: str, data: Any, tmp_path: Path) -> None:
    source = FILES / name
    place = data.draw(st.sampled_from(list(places(json.loads(source.read_bytes())))))
    folder = tmp_path / source.parent.name
    if not folder.exists():
        shutil.copytree(source.parent, folder)
    path = changed(source, folder / source.name, put(*place, value=data.draw(ODD)))
    try:
        rows = read(path)
    except InputFileError as refusal:
        assert str(path) in str(refusal)
        return
    rows_table(rows, "rows")
    counts = [row[column.name] for row in rows for column in COLUMNS if column.kind in ("count", "number")]
    assert all(count is None or 0 <= count < float("inf") for count in counts)
    assert all((row["resolved"] is None) == (row["verdict"] not in ("resolved", "unresolved")) for row in rows)
