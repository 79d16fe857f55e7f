"""Files of the cells table: rows and earlier tables into one Parquet file, or into a folder of them by study and arm.

Rules:
1. There is one schema (`scoring.columns`). A file of another schema or version is refused by file and field.
2. An attempt stands in a table once: the same bundle twice is one row, two bundles under one identity are refused.
3. A table appears whole, by one rename; what is already there is replaced only when it is a single file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError, InputFileError, UsageError
from scoring.table import TABLE_VERSION, arrow_schema, rows_table

PARTITIONS = ("study", "arm")
_IDENTITY = ("study", "cell_id", "attempt", "bundle_sha256")


@dataclass(frozen=True)
class Written:
    """What a call of `write_cells` made: `repeated` counts rows that stood in more than one source."""

    rows: int
    repeated: int
    partitioned: bool


def is_cells_table(path: Path) -> bool:
    """Whether a path can be a table of ours: a Parquet file, or a folder with Parquet files by partition."""
    if path.is_dir():
        return next(path.glob("**/*.parquet"), None) is not None
    return path.suffix == ".parquet" and path.is_file()


def write_cells(rows: Iterable[Mapping[str, Any]], earlier: Sequence[Path], out: Path) -> Written:
    """One table of all sources. A name that ends in `.parquet` is a file, any other a folder partitioned by study and
    arm. UsageError when such a folder exists, EvidenceError for two bundles of one attempt."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    partitioned = out.suffix != ".parquet"
    if partitioned and out.exists():
        raise UsageError(f"{out}: asked for a partitioned table there; it exists. Remove it or name another folder")
    whole = pa.concat_tables([rows_table(rows, str(out)), *(read_cells_table(path) for path in earlier)])
    kept = _first_of_each(whole)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        if partitioned:
            _write_partitions(kept, unfinished)
        else:
            pq.write_table(kept, unfinished, compression="zstd")
        os.replace(unfinished, out)
    finally:
        _remove(unfinished)
    return Written(kept.num_rows, whole.num_rows - kept.num_rows, partitioned)


def read_cells_table(path: Path) -> Any:
    """An earlier table, whole, as an Arrow table of the one schema. InputFileError names file and field."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schema = arrow_schema()
    try:
        found = ds.dataset(
            path, format="parquet", partitioning=ds.partitioning(_partition_schema(schema), flavor="hive")
        )
        _refuse_other_schema(path, found.schema, _own_metadata(found) if path.is_dir() else found.schema.metadata)
        return found.to_table(columns=schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        raise InputFileError(str(path), f"cannot be read as a cells table: {str(error)[:300]}") from error


def _partition_schema(schema: Any) -> Any:
    import pyarrow as pa

    return pa.schema([schema.field(name) for name in PARTITIONS])


def _own_metadata(dataset: Any) -> Any:
    first = next(iter(dataset.get_fragments()), None)
    return None if first is None else first.physical_schema.metadata


def _refuse_other_schema(path: Path, found: Any, metadata: Mapping[bytes, bytes] | None) -> None:
    stated = {key.decode(): value.decode() for key, value in (metadata or {}).items()}
    if stated.get("assay.table") != "cells":
        raise InputFileError(str(path), "not a cells table of Assay (its schema does not say so)")
    if stated.get("assay.version") != str(TABLE_VERSION):
        told = f"cells table of version {stated.get('assay.version')}; this version of Assay reads {TABLE_VERSION}"
        raise InputFileError(str(path), told)
    schema = arrow_schema()
    for name in found.names:
        if name not in schema.names:
            raise InputFileError(str(path), f"column `{name}`: not one of the cells table")
    for field in schema:
        if field.name not in found.names:
            raise InputFileError(str(path), f"column `{field.name}`: missing")
        if found.field(field.name).type != field.type:
            told = f"column `{field.name}`: of type {found.field(field.name).type}; allowed: {field.type}"
            raise InputFileError(str(path), told)


def _first_of_each(table: Any) -> Any:
    """The table without repeated bundles, in its order. A row of another tool has no bundle and is always kept."""
    import pyarrow as pa
    import pyarrow.compute as pc

    *identity, bundle = _IDENTITY
    numbered = table.select(_IDENTITY).append_column("row", pa.array(range(table.num_rows), pa.int64()))
    ours = numbered.filter(pc.is_valid(numbered[bundle]))
    first = ours.group_by([*identity, bundle]).aggregate([("row", "min")])
    _refuse_two_bundles(first, identity, bundle)
    if first.num_rows == ours.num_rows:
        return table
    foreign = numbered.filter(pc.is_null(numbered[bundle]))["row"]
    return table.take(pa.concat_arrays([*first["row_min"].chunks, *foreign.chunks]).sort())


def _refuse_two_bundles(first: Any, identity: list[str], bundle: str) -> None:
    import pyarrow.compute as pc

    bundles = first.group_by(identity).aggregate([(bundle, "count_distinct"), (bundle, "min"), (bundle, "max")])
    twice = bundles.filter(pc.greater(bundles[f"{bundle}_count_distinct"], 1)).slice(0, 1).to_pylist()
    if twice:
        named = "/".join(str(twice[0][name]) for name in identity)
        found = f"{twice[0][f'{bundle}_min']} and {twice[0][f'{bundle}_max']}"
        raise EvidenceError(f"{named}: found the bundles {found}; a table has one an attempt")


def _write_partitions(table: Any, folder: Path) -> None:
    import pyarrow.dataset as ds

    ds.write_dataset(
        table,
        folder,
        format="parquet",
        partitioning=ds.partitioning(_partition_schema(table.schema), flavor="hive"),
        file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
        max_partitions=65_536,
    )


def _remove(unfinished: Path) -> None:
    if unfinished.is_dir():
        shutil.rmtree(unfinished)
    else:
        unfinished.unlink(missing_ok=True)
