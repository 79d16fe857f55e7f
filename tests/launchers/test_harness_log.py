"""What a harness prints: on disk while it prints, without secrets, capped."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells.attempt import LiveAttempt
from cells.recording.secrets import find_secrets
from launchers.harness_log import GAP, OUTPUT_CAP, HarnessLog

KEY = "sk-planted-0123456789"


def written(root: Path, pieces: list[tuple[str, bytes, bool]], secrets: dict[str, str]) -> tuple[bytes, bytes]:
    attempt = LiveAttempt.create(root / "a")
    log = HarnessLog(attempt, secrets)
    for stream, content, end in pieces:
        log.take(stream, content, end=end)
    log.close()
    log.close()
    return (root / "a/live/harness.stdout.log").read_bytes(), (root / "a/live/harness.stderr.log").read_bytes()


def test_both_streams_have_their_file_even_when_nothing_was_said(tmp_path: Path) -> None:
    assert written(tmp_path, [("neither", b"x", False)], {}) == (b"", b"")


def test_it_is_on_disk_while_the_harness_runs(tmp_path: Path) -> None:
    log = HarnessLog(LiveAttempt.create(tmp_path / "a"), {})
    log.take("stdout", b"working\n", end=False)
    assert (tmp_path / "a/live/harness.stdout.log").read_bytes() == b"working\n"
    log.close()


@given(st.integers(0, 60), st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_a_secret_is_found_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, before: int, cuts: list[int]
) -> None:
    whole = b"x" * before + KEY.encode() + b"y" * 30 + KEY.encode()
    pieces, position, number = [], 0, 0
    while position < len(whole):
        size = cuts[number % len(cuts)]
        pieces.append(("stdout", whole[position : position + size], False))
        position, number = position + size, number + 1
    out, _ = written(tmp_path_factory.mktemp("log"), pieces, {"KEY": KEY})
    assert find_secrets(out, {"KEY": KEY}) == []
    assert out == b"x" * before + b"[removed:KEY]" + b"y" * 30 + b"[removed:KEY]"


def test_the_end_of_a_flood_stands_after_a_gap(tmp_path: Path) -> None:
    pieces = [("stderr", b"begin", False), ("stderr", b"the end", True)]
    assert written(tmp_path, pieces, {"KEY": KEY})[1] == b"begin" + GAP + b"the end"


def test_the_host_keeps_its_own_cap(tmp_path: Path) -> None:
    out, _ = written(tmp_path, [("stdout", b"z" * OUTPUT_CAP, False)] * 3, {})
    assert OUTPUT_CAP < len(out) < OUTPUT_CAP + 100_000
