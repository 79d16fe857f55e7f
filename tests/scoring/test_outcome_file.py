"""A user's file of outcomes: what is read, and how what is wrong with it is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cells.errors import InputFileError
from scoring.compare import FileOptions, compare_file
from scoring.outcome_file import ColumnMapping, OutcomeColumns, load_mapping, read_outcome_file
from scoring.statistics.fractions import ZeroTotal

HEADER = "task\trepo\tc\tt\n"
MAPPING = ColumnMapping(task="task", cluster="repo", outcomes={"resolved": OutcomeColumns(control="c", treatment="t")})
FRACTIONS = ColumnMapping(
    task="task",
    outcomes={"f2p_fraction": OutcomeColumns(control="c_fraction", treatment="t_fraction")},
)
COUNTED = "task\tc_passed\tc_total\tc_fraction\tt_passed\tt_total\tt_fraction\n"


def written(directory: Path, text: str, name: str = "outcomes.tsv") -> Path:
    path = directory / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a\tr\t1\tNaN\n", "row 1, column `t`: found 'NaN'; allowed: 0 or 1, or nothing"),
        ("a\tr\t1\tinf\n", "row 1, column `t`: found 'inf'; allowed: 0 or 1, or nothing"),
        ("a\tr\t1\t1e999\n", "row 1, column `t`: found inf; allowed: 0 or 1, or nothing"),
        ("a\tr\t1\t-1\n", "row 1, column `t`: found -1; allowed: 0 or 1, or nothing"),
        ("a\tr\t1\t1\nb\tr\t0.5\t1\n", "row 2, column `c`: found 0.5; allowed: 0 or 1, or nothing"),
        ("a\tr\tyes\t1\n", "row 1, column `c`: found 'yes'; allowed: 0 or 1, or nothing"),
        ("a\tr\t1\t1\na\tr\t0\t1\n", "row 2, column `task`: found a a second time; allowed: each task once in a group"),
        ("a\t\t1\t1\n", "row 1, column `repo`: found nothing; allowed: a name in every row"),
        ("\tr\t1\t1\n", "row 1, column `task`: found nothing; allowed: a name in every row"),
        ("", "no rows after the header"),
        ("a\tr\t1\n", "cannot be read as a table"),
    ],
)
def test_a_wrong_row_is_refused_by_file_row_column_found_and_allowed(tmp_path: Path, body: str, message: str) -> None:
    path = written(tmp_path, HEADER + body)
    with pytest.raises(InputFileError) as refusal:
        read_outcome_file(path, MAPPING)
    assert str(refusal.value).startswith(f"{path}: ") and message in str(refusal.value)
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "a\t3\t2\t1.5\t1\t1\t1",
            "column `c_passed`: found 3 passed of a total of 2 (c_total); allowed: passed <= total",
        ),
        ("a\t-1\t2\t0\t1\t1\t1", "column `c_passed`: found -1; allowed: a whole number that is not negative"),
        ("a\t1\t2.5\t0.4\t1\t1\t1", "column `c_total`: found 2.5; allowed: a whole number"),
        ("a\t1\t2\t0.4\t1\t1\t1", "column `c_fraction`: found 0.4 for 1 of 2; allowed: 0.5"),
        ("a\t0\t0\t1\t1\t1\t1", "column `c_fraction`: found 1 for 0 of 0; allowed: 0"),
        ("a\t1\t2\t1.5\t1\t1\t1", "column `c_fraction`: found 1.5; allowed: a number from 0 to 1"),
    ],
)
def test_counts_that_no_test_run_can_have_are_refused(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(InputFileError) as refusal:
        read_outcome_file(written(tmp_path, f"{COUNTED}{row}\n"), FRACTIONS)
    assert message in str(refusal.value)


@pytest.mark.parametrize(("rule", "values"), [("zero", [0.0, 1.0]), ("missing", [np.nan, 1.0])])
def test_a_zero_denominator_follows_the_stated_rule(tmp_path: Path, rule: str, values: list[float]) -> None:
    path = written(tmp_path, f"{COUNTED}a\t0\t0\t0\t2\t2\t1\n")
    table, _ = read_outcome_file(path, FRACTIONS.model_copy(update={"zero_total": ZeroTotal(rule)}))
    np.testing.assert_array_equal(table.values["f2p_fraction"], values)
    np.testing.assert_array_equal(table.totals["f2p_fraction"], [0.0, 2.0])


def test_an_unknown_column_is_refused_with_the_columns_there_are(tmp_path: Path) -> None:
    mapping = MAPPING.model_copy(update={"cluster": "repository"})
    with pytest.raises(InputFileError, match=r"no column `repository`; columns: task, repo, c, t"):
        read_outcome_file(written(tmp_path, HEADER + "a\tr\t1\t1\n"), mapping)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("outcomes.tsv", "", "cannot be read as a table"),
        ("outcomes.xlsx", "PK", "unknown kind of file '.xlsx'; allowed: .tsv, .csv, .parquet"),
        ("outcomes.parquet", "not parquet", "cannot be read as a table"),
        ("outcomes.csv", "task,repo,c,c,t\na,r,1,1,1\n", "column `c` stands in the header more than once"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputFileError) as refusal:
        read_outcome_file(written(tmp_path, text, name), MAPPING)
    assert message in str(refusal.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="no such file"):
        read_outcome_file(tmp_path / "none.tsv", MAPPING)


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.tsv"
    path.write_bytes(HEADER.encode() + b"a\xff\tr\t1\t1\n")
    with pytest.raises(InputFileError, match="cannot be read as a table"):
        read_outcome_file(path, MAPPING)


def test_one_odd_row_in_a_million_is_named(tmp_path: Path) -> None:
    rows = 1_000_000
    verdicts = np.ones(rows)
    verdicts[654_321] = np.nan
    names = pa.array(np.arange(rows)).cast(pa.string())
    table = pa.table({"task": names, "c": pa.array(np.zeros(rows)), "t": pa.array(verdicts, from_pandas=False)})
    path = tmp_path / "large.parquet"
    pq.write_table(table, path)
    mapping = MAPPING.model_copy(update={"cluster": None})
    with pytest.raises(InputFileError, match=r"row 654322, column `t`: found nan; allowed: 0 or 1, or nothing"):
        read_outcome_file(path, mapping)


def test_the_three_formats_read_alike(tmp_path: Path) -> None:
    tsv = written(tmp_path, HEADER + "004\tr\t1\t\n005\ts\t0\t1\n")
    csv = written(tmp_path, HEADER.replace("\t", ",") + "004,r,1,\n005,s,0,1\n", "outcomes.csv")
    parquet = tmp_path / "outcomes.parquet"
    columns = {"task": ["004", "005"], "repo": ["r", "s"], "c": [True, False], "t": [None, 1]}
    pq.write_table(pa.table(columns), parquet)
    reports = [compare_file(path, MAPPING, FileOptions()).as_json(details=True) for path in (tsv, csv, parquet)]
    assert reports[0] == reports[1] == reports[2]


def test_a_task_may_stand_once_per_sample(tmp_path: Path) -> None:
    path = written(tmp_path, "task\trepo\ts\tc\tt\na\tr\t1\t1\t1\na\tr\t2\t0\t1\nb\tr\t1\t0\t0\nb\tr\t2\t0\t0\n")
    report = compare_file(path, MAPPING.model_copy(update={"sample": "s"}), FileOptions())
    (comparison,) = report.comparisons
    assert (comparison.pairs.samples, len(comparison.pairs.tasks)) == (2, 2)


def test_a_file_is_exploratory_unless_its_mapping_says_that_it_was_planned(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "a\tr\t1\t1\nb\ts\t0\t1\n")
    plain = compare_file(path, MAPPING, FileOptions()).comparisons[0]
    planned = compare_file(path, MAPPING.model_copy(update={"planned": True}), FileOptions()).comparisons[0]
    assert (plain.p_holm, planned.p_holm) == (None, 1.0)
    assert "exploratory: not a planned comparison" in plain.notes


def test_a_mapping_with_an_unknown_key_is_refused_by_line(tmp_path: Path) -> None:
    path = written(
        tmp_path, 'task = "t"\nclusters = "r"\n[outcomes.resolved]\ncontrol = "c"\ntreatment = "d"\n', "m.toml"
    )
    with pytest.raises(InputFileError, match=r"m\.toml:2: clusters: unknown key"):
        load_mapping(path)


def test_a_mapping_may_name_the_kind_of_an_outcome(tmp_path: Path) -> None:
    text = 'task = "task"\n[outcomes.solved]\nkind = "binary"\ncontrol = "c"\ntreatment = "t"\n'
    mapping = load_mapping(written(tmp_path, text, "m.toml"))
    with pytest.raises(InputFileError, match="allowed: 0 or 1"):
        read_outcome_file(written(tmp_path, HEADER + "a\tr\t2\t1\n"), mapping)
