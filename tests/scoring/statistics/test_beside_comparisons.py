"""Noise floor and drift from the cells of a study."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scoring.statistics.beside_comparisons import drift_of_cells, floor_of_one_arm, floor_of_same_arms
from scoring.statistics.cell_columns import outcome_rows
from scoring.statistics.drift import Drift
from scoring.statistics.estimate import NotEstimable
from scoring.statistics.noise_floor import NoiseFloor
from scoring.statistics.outcomes import OutcomeKind, OutcomeTable


def study(chance: float, fall: float = 0.0, seed: int = 3) -> list[dict[str, Any]]:
    """Forty tasks, two samples, arms a and b in random order, with one chance that may fall along the run."""
    rng = np.random.default_rng(seed)
    blocks = [(task, sample) for task in range(40) for sample in (1, 2)]
    cells: list[dict[str, Any]] = []
    for place in rng.permutation(len(blocks)):
        task, sample = blocks[int(place)]
        for arm in "ab":
            solved = bool(rng.random() < chance - fall * len(cells) / 160)
            verdict = "resolved" if solved else "unresolved"
            cells.append(
                {"task": f"t{task}", "repository": None, "arm": arm, "sample": sample, "order": len(cells)}
                | {"verdict": verdict, "resolved": int(solved)}
            )
    return cells


def table(cells: list[dict[str, Any]]) -> OutcomeTable:
    return OutcomeTable.of_rows(outcome_rows(cells, ("resolved",)), {"resolved": OutcomeKind.BINARY})


def test_the_floor_of_same_arms_and_of_one_arms_samples_are_alike() -> None:
    cells = table(study(0.5))
    arms = floor_of_same_arms(cells, "resolved", [("a", "b")], seed=1)
    samples = floor_of_one_arm(cells, "resolved", "a", seed=1)
    assert isinstance(arms, NoiseFloor) and isinstance(samples, NoiseFloor)
    assert arms.sd == pytest.approx(samples.sd, rel=0.35)
    assert arms.sd == pytest.approx(np.sqrt(0.25 / 40), rel=0.25)


def test_a_fall_along_the_run_is_seen_and_a_steady_run_is_not() -> None:
    fallen, steady = drift_of_cells(study(0.95, 0.9), "resolved", 1), drift_of_cells(study(0.5), "resolved", 1)
    assert isinstance(fallen, Drift) and isinstance(steady, Drift)
    assert fallen.slope < -0.5 and fallen.p.p < 0.001 < 0.01 < steady.p.p
    assert fallen.blocks == 80


def test_cells_without_a_place_give_no_drift() -> None:
    cells = [cell | {"order": None} for cell in study(0.5)]
    assert isinstance(drift_of_cells(cells, "resolved", 1), NotEstimable)
