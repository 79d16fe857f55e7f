"""Named columns of a TSV, CSV or Parquet file of a user, as text or numbers; refusals name file, row and column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as papq

from cells.errors import InputFileError
from scoring.statistics.estimate import BoolArray, FloatArray
from scoring.statistics.outcomes import Labels
from scoring.statistics.printable import printable

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DELIMITERS = {".tsv": "\t", ".csv": ","}
_SHOWN = 80


class ColumnFile:
    """The columns of one file that were asked for."""

    def __init__(self, path: Path, table: pa.Table) -> None:
        self.path = path
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def labels(self, name: str) -> Labels:
        """A column of names; an empty one is refused."""
        column = self._column(name)
        missing = _first(np.asarray(pc.is_null(column)))
        if missing is not None:
            self.refuse(missing, name, "nothing", "a name in every row")
        encoded = pc.cast(column, pa.string()).dictionary_encode()
        return Labels(tuple(encoded.dictionary.to_pylist()), np.asarray(encoded.indices, dtype=np.intp))

    def numbers(self, name: str, allowed: str) -> tuple[FloatArray, BoolArray]:
        """A column of numbers (NaN where there is none) and which rows have one.

        `allowed` words the refusal of anything else.
        """
        column = self._column(name)
        given = ~np.asarray(pc.is_null(column))
        if pa.types.is_string(column.type):
            plain = pc.match_substring_regex(column, _NUMBER)
            odd = _first(~np.asarray(pc.fill_null(plain, True)))
            if odd is not None:
                self.refuse(odd, name, repr(column[odd].as_py())[:_SHOWN], allowed)
        elif not (
            pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
        ):
            raise InputFileError(str(self.path), f"column `{name}` is of type {column.type}; allowed: {allowed}")
        if pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.int8())
        return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64), given

    def refuse(self, row: int, name: str, found: str, allowed: str) -> NoReturn:
        """Raise InputFileError for the row with this index."""
        told = printable(f"row {row + 1}, column `{name}`: found {found}; allowed: {allowed}")
        raise InputFileError(str(self.path), told)

    def _column(self, name: str) -> Any:
        column = self._table.column(name).combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return pc.cast(column, pa.string()) if pa.types.is_large_string(column.type) else column


def column_names(path: Path) -> tuple[str, ...]:
    """The names in the file's header or schema.

    InputFileError for a file that is none of the three formats, or has a name twice.
    """
    with _naming(path):
        if _suffix(path) == ".parquet":
            names = papq.read_schema(path).names
        else:
            names = pacsv.open_csv(path, parse_options=_parse(path)).schema.names
    for name in names:
        if names.count(name) > 1:
            raise InputFileError(str(path), printable(f"column `{name}` stands in the header more than once"))
    return tuple(names)


def read_column_file(path: Path, wanted: Sequence[str]) -> ColumnFile:
    """Read the wanted columns. InputFileError for a column that is not there, a ragged row, or a file without rows."""
    known = column_names(path)
    for name in wanted:
        if name not in known:
            raise InputFileError(str(path), printable(f"no column `{name}`; columns: {', '.join(known)}"))
    columns = list(dict.fromkeys(wanted))
    with _naming(path):
        table = papq.ParquetFile(path).read(columns) if _suffix(path) == ".parquet" else _read_text(path, columns)
    if not table.num_rows:
        raise InputFileError(str(path), "no rows after the header; expected one row a task")
    return ColumnFile(path, table)


def _read_text(path: Path, columns: list[str]) -> pa.Table:
    convert = pacsv.ConvertOptions(
        include_columns=columns,
        column_types=dict.fromkeys(columns, pa.string()),
        strings_can_be_null=True,
        null_values=[""],
    )
    read = pacsv.ReadOptions(use_threads=False)  # a ragged row is named only when one thread reads
    return pacsv.read_csv(path, read_options=read, parse_options=_parse(path), convert_options=convert)


def _parse(path: Path) -> pacsv.ParseOptions:
    return pacsv.ParseOptions(delimiter=_DELIMITERS[_suffix(path)], newlines_in_values=False)


def _suffix(path: Path) -> str:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in (*_DELIMITERS, ".parquet"):
        raise InputFileError(str(path), f"unknown kind of file {suffix or path.name!r}; allowed: .tsv, .csv, .parquet")
    return suffix


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputFileError(str(path), "no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputFileError(str(path), printable(f"cannot be read as a table: {str(error)[:300]}")) from error


def _first(found: BoolArray) -> int | None:
    places = np.flatnonzero(found)
    return int(places[0]) if len(places) else None
