"""Which reader a path of another tool belongs to: told by its shape, the keys that only that format has.

Rules:
1. The shape says the format, never the version: a newer or unknown version is refused by the format's reader.
2. A file of no known shape is refused with the keys it has.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cells.errors import InputFileError
from scoring.interop.harbor import result_rows
from scoring.interop.inspect_eval import eval_folder_rows, eval_rows
from scoring.interop.mini_swe_agent import batch_rows, trajectory_rows
from scoring.interop.reading import Row, document
from scoring.interop.swebench import instance_report_rows, prediction_rows, report_tree_rows, run_report_rows
from scoring.interop.terminal_bench import run_rows

FileReader = Callable[[Path], list[Row]]
_BY_KEYS: tuple[tuple[frozenset[str], FileReader], ...] = (
    (frozenset({"resolved_ids", "submitted_ids"}), run_report_rows),
    (frozenset({"trial_name", "task_checksum"}), result_rows),
    (frozenset({"n_total_trials", "stats"}), result_rows),
    (frozenset({"results", "accuracy"}), run_rows),
)
_BY_KEYS_OF_MEMBERS: tuple[tuple[frozenset[str], FileReader], ...] = (
    (frozenset({"model_patch"}), prediction_rows),
    (frozenset({"patch_is_None"}), instance_report_rows),
)
_BY_SUFFIX: tuple[tuple[str, FileReader], ...] = (
    (".jsonl", prediction_rows),
    (".traj.json", trajectory_rows),
    (".eval", eval_rows),
)
_BY_FOLDER: tuple[tuple[str, FileReader], ...] = (
    ("*.traj.json", batch_rows),
    ("*/*.traj.json", batch_rows),
    ("*.eval", eval_folder_rows),
    ("result.json", result_rows),
    ("results.json", run_rows),
    ("report.json", report_tree_rows),
    ("*/report.json", report_tree_rows),
    ("*/*/report.json", report_tree_rows),
)


def folder_reader(folder: Path) -> FileReader | None:
    """The reader of another tool's folder; None when it has nothing that one of them is known by."""
    return next((reader for pattern, reader in _BY_FOLDER if any(folder.glob(pattern))), None)


def file_reader(path: Path) -> FileReader | None:
    """The reader of another tool's file, None when its name ends as none of theirs. InputFileError for JSON of no
    known shape."""
    for suffix, reader in _BY_SUFFIX:
        if path.name.endswith(suffix):
            return reader
    return _reader_of_json(path) if path.suffix == ".json" else None


def foreign_reader(path: Path) -> FileReader | None:
    """The reader of a path of another tool, None when it is not one."""
    return folder_reader(path) if path.is_dir() else file_reader(path) if path.is_file() else None


def _reader_of_json(path: Path) -> FileReader:
    found = document(path).members()
    for keys, reader in _BY_KEYS:
        if keys <= found.keys():
            return reader
    members = [value for value in found.values() if isinstance(value, dict)]
    for keys, reader in _BY_KEYS_OF_MEMBERS:
        if members and any(keys <= member.keys() for member in members):
            return reader
    keys_found = ", ".join(sorted(found)[:8]) or "no keys"
    raise InputFileError(str(path), f"of no format that is read here; found {keys_found[:200]}")
