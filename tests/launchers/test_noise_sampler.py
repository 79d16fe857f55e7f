"""Samples of the machine and of the cell: when they are due, what they hold, what is kept of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cells.attempt import LiveAttempt
from launchers.noise_sampler import NoiseSampler


class Clock:
    """Says what it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def rows(attempt: LiveAttempt) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (attempt.root / "live/noise.jsonl").read_text().splitlines()]


def sampler(tmp_path: Path, clock: Clock, *values: dict[str, float | int | None]) -> tuple[LiveAttempt, NoiseSampler]:
    attempt, given = LiveAttempt.create(tmp_path / "a"), iter(values)
    return attempt, NoiseSampler(attempt, clock.now, lambda: next(given), clock)


def test_a_row_is_due_at_once_and_then_once_a_second(tmp_path: Path, clock: Clock) -> None:
    attempt, noise = sampler(tmp_path, clock, {"pids": 1}, {"pids": 2}, {"pids": 3})
    for now in (100.0, 100.9, 101.0, 107.0, 107.5):
        clock.now = now
        noise.sample_if_due()
    assert [row["t_mono_s"] for row in rows(attempt)] == [0.0, 1.0, 7.0]


def test_a_row_says_whose_counters_it_holds_and_what_the_host_was_like(tmp_path: Path, clock: Clock) -> None:
    attempt, noise = sampler(tmp_path, clock)
    noise.sample("cell", {"cpu_s": 0.5, "pids": None}, {"disk": {"free_mb": 3.0}})
    (row,) = rows(attempt)
    assert (row["v"], row["source"], row["cell"], row["disk"]) == (
        1,
        "cell",
        {"cpu_s": 0.5, "pids": None},
        {"free_mb": 3.0},
    )
    assert set(row["host"]) == {"load_1", "load_5", "load_15", "cores"} and row["at"].endswith("Z")


def test_of_each_counter_the_highest_value_is_kept_and_unknown_is_no_value(tmp_path: Path, clock: Clock) -> None:
    _, noise = sampler(tmp_path, clock)
    for pids, peak in ((3, None), (9, 1.5), (1, None)):
        noise.sample("host", {"pids": pids, "memory_peak_mb": peak, "oom_kills": None}, None)
    assert noise.highest() == {"pids": 9, "memory_peak_mb": 1.5}
