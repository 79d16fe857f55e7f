"""Files of the cells table: whole or not at all, each bundle once, another schema refused by file and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cells.errors import EvidenceError, InputFileError, UsageError
from scoring.columns import NAMES
from scoring.table import rows_table, write_table
from scoring.table_files import is_cells_table, read_cells_table, write_cells


def row(number: int, bundle: str | None = "own", **more: Any) -> dict[str, Any]:
    own = f"sha256:{number:064x}" if bundle == "own" else bundle
    known = {"study": "s", "cell_id": f"sha256:{number:064x}", "attempt": "a001", "arm": f"arm/{number % 2}"}
    return {**dict.fromkeys(NAMES), **known, "bundle_sha256": own, "resolved": number % 2, "cost": "0.1", **more}


def test_a_file_is_written_whole_and_replaced(tmp_path: Path) -> None:
    out = tmp_path / "cells.parquet"
    assert write_cells([row(1), row(2)], [], out).rows == 2
    assert write_cells([row(3)], [], out).rows == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cells.parquet"]
    with pytest.raises(EvidenceError):
        write_cells([row(1, turns="many")], [], out)
    assert pq.read_table(out)["cell_id"].to_pylist() == [row(3)["cell_id"]]


def test_partitions_read_back_as_the_same_table(tmp_path: Path) -> None:
    rows = [row(number) for number in range(6)]
    written = write_cells(rows, [], tmp_path / "folder")
    assert (written.partitioned, is_cells_table(tmp_path / "folder")) == (True, True)
    found = read_cells_table(tmp_path / "folder").sort_by("cell_id")
    assert found.equals(rows_table(rows, "expected").sort_by("cell_id"), check_metadata=True)
    with pytest.raises(UsageError, match="it exists"):
        write_cells(rows, [], tmp_path / "folder")


def test_the_same_bundle_is_one_row_in_the_order_of_the_first(tmp_path: Path) -> None:
    write_table([row(1), row(5)], tmp_path / "earlier.parquet")
    written = write_cells([row(5), row(3)], [tmp_path / "earlier.parquet"], tmp_path / "all.parquet")
    assert (written.rows, written.repeated) == (3, 1)
    found = pq.read_table(tmp_path / "all.parquet")["cell_id"].to_pylist()
    assert found == [row(number)["cell_id"] for number in (5, 3, 1)]


def test_two_bundles_of_one_attempt_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="a table has one an attempt"):
        write_cells([row(1), row(1, bundle="sha256:other")], [], tmp_path / "cells.parquet")
    assert not list(tmp_path.iterdir())


def test_rows_of_other_tools_have_no_bundle_and_are_all_kept(tmp_path: Path) -> None:
    foreign = [row(1, bundle=None, cell_id=None, attempt=None) for _ in range(3)]
    assert write_cells([*foreign, row(2), row(2)], [], tmp_path / "cells.parquet").rows == 4


def test_another_table_is_refused_by_file_and_field(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"task": ["a"]}), path)
    with pytest.raises(InputFileError, match="not a cells table"):
        read_cells_table(path)
    table = rows_table([row(1)], "x")
    newer = table.replace_schema_metadata({**table.schema.metadata, b"assay.version": b"99"})
    pq.write_table(newer, path)
    with pytest.raises(InputFileError, match="version 99"):
        read_cells_table(path)
    pq.write_table(table.drop_columns(["turns"]), path)
    with pytest.raises(InputFileError, match="column `turns`: missing"):
        read_cells_table(path)
    odd = table.set_column(table.schema.get_field_index("turns"), "turns", pa.array(["3"]))
    pq.write_table(odd.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(InputFileError, match="column `turns`: of type string"):
        read_cells_table(path)
