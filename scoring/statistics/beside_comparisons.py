"""What a report shows beside its comparisons, from the cells of a study: the noise floor and the drift of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scoring.statistics.arm_tasks import group_rows
from scoring.statistics.cell_columns import outcome_rows
from scoring.statistics.drift import Drift, drift
from scoring.statistics.estimate import NotEstimable, generator_for
from scoring.statistics.noise_floor import NoiseFloor, floor_of_arms, floor_of_samples
from scoring.statistics.outcomes import Labels, OutcomeTable
from scoring.statistics.pairing import pair_tasks

FLOOR_DRAWS = 10_000
DRIFT_DRAWS = 9_999


def floor_of_same_arms(
    table: OutcomeTable, outcome: str, same: Sequence[tuple[str, str]], seed: int
) -> NoiseFloor | NotEstimable:
    """The noise floor from pairs of arms with one content (A/A), all in the first group of the table."""
    rows = group_rows(table, 0)
    differences = tuple(pair_tasks(rows, *pair, outcome).differences for pair in same)
    return floor_of_arms(differences, generator_for(seed, "noise floor", outcome), FLOOR_DRAWS)


def floor_of_one_arm(table: OutcomeTable, outcome: str, arm: str, seed: int) -> NoiseFloor | NotEstimable:
    """The noise floor from the samples of one arm, for a study without A/A arms."""
    own = np.flatnonzero(np.asarray([name == arm for name in table.arm.names], dtype=np.bool_)[table.arm.codes])
    values = table.values[outcome][own]
    known = ~np.isnan(values)
    rng = generator_for(seed, "noise floor", outcome, arm)
    return floor_of_samples(values[known], table.task.codes[own][known], rng, FLOOR_DRAWS)


def drift_of_cells(cells: Iterable[Mapping[str, Any]], outcome: str, seed: int) -> Drift | NotEstimable:
    """Drift over records with the columns of the cells table; cells without an `order` are left out."""
    placed = [cell for cell in cells if cell.get("order") is not None]
    if not placed:
        return NotEstimable("no cell has a position in the run")
    rows = outcome_rows(placed, (outcome,))
    values = [row.values[outcome] for row in rows]
    return drift(
        positions=np.asarray([cell["order"] for cell in placed], dtype=np.float64),
        values=np.asarray([np.nan if value is None else value for value in values], dtype=np.float64),
        arms=Labels.of(row.arm for row in rows).codes,
        blocks=Labels.of(f"{row.task}\x1f{row.sample}" for row in rows).codes,
        rng=generator_for(seed, "drift", outcome),
        draws=DRIFT_DRAWS,
    )
