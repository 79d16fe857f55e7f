"""Each step of set-up leaves one line with its seconds, also when it fails."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from infra.machine.steps import Steps


def steps_with_clock(readings: Iterator[float]) -> tuple[Steps, io.StringIO]:
    stream = io.StringIO()
    return Steps(stream, clock=lambda: next(readings)), stream


def test_a_step_says_its_outcome_and_its_seconds() -> None:
    steps, stream = steps_with_clock(iter([10.0, 12.5]))
    with steps.step("base image") as step:
        step.outcome = "built"
    assert stream.getvalue() == "-- base image      2.5 s  built\n"


def test_a_failed_step_says_so_and_lets_the_error_through() -> None:
    steps, stream = steps_with_clock(iter([0.0, 1.0]))
    with pytest.raises(KeyError), steps.step("engine"):
        raise KeyError
    assert stream.getvalue() == "-- engine          1.0 s  failed\n"
