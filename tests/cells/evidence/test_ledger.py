"""The ledger: appended, never changed; every damage is seen; only a torn tail is ever cut, and kept."""

from __future__ import annotations

import errno
import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cells.errors import EvidenceError
from cells.evidence.digest import canonical_json, digest_bytes
from cells.evidence.fs_faults import Step, SteppedFileSystem
from cells.evidence.fs_real import REAL
from cells.evidence.ledger import LATEST, LEDGER, Entry, Ledger, read_chain
from cells.evidence.locks import NoLocks


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "locks").mkdir()
    return tmp_path


def filled(study: Path, rows: int = 4) -> Ledger:
    ledger = Ledger.open(study)
    for number in range(rows):
        ledger.append("published", f"cells/c/attempts/a{number:03d}", digest_bytes(b"%d" % number), {"n": number})
    return ledger


def kinds(study: Path) -> list[str]:
    return [problem.kind for problem in Ledger.open(study).verify()]


@pytest.mark.requirement(27)
def test_rows_are_chained_by_the_bytes_of_the_line_before(study: Path) -> None:
    filled(study)
    lines = (study / LEDGER).read_bytes().splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows[0]["prev"] is None
    assert [row["prev"] for row in rows[1:]] == [digest_bytes(line) for line in lines[:-1]]
    assert [row["seq"] for row in rows] == [0, 1, 2, 3]
    assert all(canonical_json(row) == line for row, line in zip(rows, lines, strict=True))
    assert Ledger.open(study).head == digest_bytes(lines[-1])


def test_a_reader_sees_what_another_writer_appended(study: Path) -> None:
    reader = Ledger.open(study)
    writer = filled(study, 2)
    assert [row.seq for row in reader.rows()] == [0, 1]
    writer.append("withdrawn", "x", None, {"reason": "r"})
    assert [row.kind for row in reader.rows()][-1] == "withdrawn"


@pytest.mark.requirement(11)
def test_parallel_writers_lose_no_row(study: Path) -> None:
    def write(name: str) -> None:
        ledger = Ledger.open(study, who=name)
        for number in range(20):
            ledger.append("consumed", f"{name}/{number}")

    threads = [threading.Thread(target=write, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Ledger.open(study).verify() == []
    assert len({row.subject for row in Ledger.open(study).rows()}) == 80


@pytest.mark.requirement(27)
def test_a_torn_tail_is_ignored_by_readers_kept_and_cut_by_the_next_writer(study: Path) -> None:
    filled(study)
    with (study / LEDGER).open("ab") as stream:
        stream.write(b'{"torn":')
    assert kinds(study) == ["torn_tail"]
    assert len(Ledger.open(study).rows()) == 4
    Ledger.open(study).append("consumed", "x")
    rows = Ledger.open(study).rows()
    assert [row.kind for row in rows[4:]] == ["recovered", "consumed"]
    kept = rows[4].detail["kept"]
    assert (study / kept).read_bytes() == b'{"torn":'
    assert rows[4].digest == digest_bytes(b'{"torn":')
    assert kinds(study) == []


@pytest.mark.requirement(33)
def test_a_torn_tail_is_cut_only_while_its_copy_holds_the_same_bytes(study: Path) -> None:
    filled(study)
    whole = (study / LEDGER).read_bytes()
    torn = b'{"torn":'
    (study / LEDGER).write_bytes(whole + torn)
    name = f"ledger-tail.{len(whole)}.{digest_bytes(torn)[7:19]}"
    (study / "quarantine").mkdir()
    (study / "quarantine" / name).write_bytes(b"tampered")
    with pytest.raises(EvidenceError, match="is not cut"):
        Ledger.open(study).append("consumed", "x")
    assert (study / LEDGER).read_bytes() == whole + torn
    (study / "quarantine" / name).unlink()
    Ledger.open(study).append("consumed", "x")
    assert (study / "quarantine" / name).read_bytes() == torn


@pytest.mark.requirement(28)
def test_reordered_lost_doubled_and_changed_rows_break_the_chain(study: Path) -> None:
    filled(study)
    lines = (study / LEDGER).read_bytes().splitlines(keepends=True)
    first, second, third, fourth = lines
    for damaged in (
        [second, first, third, fourth],
        [first, third, fourth],
        [first, second, second, third, fourth],
        [first, second.replace(b'"n":1', b'"n":7'), third, fourth],
        [first, second, third, fourth.replace(b'"n":3', b'"n":7')],
        [first, second, b"\n", third, fourth],
    ):
        (study / LEDGER).write_bytes(b"".join(damaged))
        assert "ledger" in kinds(study)
        with pytest.raises(EvidenceError, match="nothing was changed"):
            Ledger.open(study).append("consumed", "x")
        assert (study / LEDGER).read_bytes() == b"".join(damaged)


@pytest.mark.requirement(28)
def test_whole_rows_lost_at_the_end_are_betrayed_by_what_was_derived_from_them(study: Path) -> None:
    filled(study)
    lines = (study / LEDGER).read_bytes().splitlines(keepends=True)
    (study / LEDGER).write_bytes(b"".join(lines[:3]))
    assert kinds(study) == ["truncated"]


@pytest.mark.requirement(48)
def test_a_ledger_rewritten_as_a_whole_is_betrayed_by_an_earlier_head(study: Path) -> None:
    filled(study)
    (study / LEDGER).unlink()
    latest = (study / LATEST).read_bytes()
    other = Ledger(study, lock=NoLocks().ledger)
    for number in range(4):
        other.append("published", f"cells/forged/attempts/a{number:03d}", digest_bytes(b"forged"))
    (study / LATEST).write_bytes(latest)
    assert kinds(study) == ["rewritten"]


@pytest.mark.requirement(26)
def test_a_damaged_or_missing_latest_is_no_problem(study: Path) -> None:
    filled(study)
    (study / LATEST).write_bytes(b"{")
    assert kinds(study) == []
    (study / LATEST).unlink()
    assert kinds(study) == []


def test_a_failed_append_leaves_no_row_that_others_could_read(study: Path) -> None:
    filled(study, 2)

    def fail(step: Step) -> None:
        if step.call == "fsync":
            raise OSError(errno.EIO, "fsync")

    broken = Ledger(study, lock=NoLocks().ledger, fs=SteppedFileSystem(REAL, fail))
    with pytest.raises(OSError):
        broken.append("consumed", "x")
    assert len(Ledger.open(study).rows()) == 2
    assert kinds(study) == []


def test_rows_appended_together_are_one_write(study: Path) -> None:
    calls: list[str] = []
    ledger = Ledger(study, lock=NoLocks().ledger, fs=SteppedFileSystem(REAL, lambda step: calls.append(step.call)))
    ledger.append_all([Entry("published", "a", None), Entry("accepted", "a", None, {"cell": "c"})])
    appended = calls[: calls.index("replace")]
    assert appended.count("fsync") == 1


@pytest.mark.requirement(12)
def test_the_same_command_run_again_adds_no_second_row(study: Path) -> None:
    ledger = filled(study, 1)
    first = ledger.append_once("revised", "plan.lock.r002.json", "sha256:" + "0" * 64)
    assert ledger.append_once("revised", "plan.lock.r002.json", "sha256:" + "0" * 64) == first
    assert len(ledger.rows()) == 2


def test_clocks_decide_nothing(study: Path) -> None:
    moments = iter([datetime(2026, 5, 1, tzinfo=UTC) - timedelta(days=day) for day in range(3)])
    ledger = Ledger(study, lock=NoLocks().ledger, clock=lambda: next(moments))
    for subject in "abc":
        ledger.append("consumed", subject)
    assert [row.subject for row in Ledger.open(study).rows()] == ["a", "b", "c"]
    assert kinds(study) == []


def test_an_unknown_kind_is_a_mistake_of_the_caller(study: Path) -> None:
    with pytest.raises(ValueError, match="known"):
        Ledger.open(study).append("deleted", "x")


def test_a_row_of_a_newer_version_is_refused(study: Path) -> None:
    filled(study, 1)
    content = (study / LEDGER).read_bytes()
    chain = read_chain(content.replace(b'"v":1', b'"v":2'))
    assert chain.problem is not None and "version" in chain.problem.detail
