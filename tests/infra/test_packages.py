"""What is missing is found also where PATH is poor, and apt is asked only for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.machine.packages import Program, find_program, missing, tail

SHELL = Program("sh", "dash", "anything")
ABSENT = Program("assay-no-such-program", "no-such-package", "a test")


def test_only_what_is_absent_is_missing() -> None:
    assert missing([SHELL, ABSENT]) == (ABSENT,)


def test_a_program_of_the_system_is_found_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user's PATH often leaves out the directories where dockerd lives."""
    monkeypatch.setenv("PATH", "")
    assert find_program("sh") is not None


def test_the_end_of_a_log_is_shown_and_no_log_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "apt.log"
    assert tail(log) == ""
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    assert tail(log, lines=2) == "line 98\nline 99"
