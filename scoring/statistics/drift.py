"""Order and drift: whether outcomes moved with the position in the run.

Cells of one task and sample run next to each other in all arms; such a block is the unit whose place was drawn at
random. The test asks whether block means, after the arms' own means are taken off, line up with position more than
random order would make them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoring.statistics.estimate import FloatArray, IntArray, NotEstimable, PValue

_BATCH = 2_000_000


@dataclass(frozen=True)
class Drift:
    """`slope`: change of the outcome from the first to the last position of the run.

    `blocks`: how many blocks it comes from.
    """

    slope: float
    blocks: int
    p: PValue


def drift(
    positions: FloatArray, values: FloatArray, arms: IntArray, blocks: IntArray, rng: np.random.Generator, draws: int
) -> Drift | NotEstimable:
    """Slope and permutation test over cells that have a value; one entry a cell in each array."""
    known = np.isfinite(values)
    if not known.any() or len(np.unique(blocks[known])) < 3:
        return NotEstimable("fewer than three blocks of task and sample have a value")
    residuals = values[known] - _means_by(arms[known], values[known])[arms[known]]
    _, codes = np.unique(blocks[known], return_inverse=True)
    place = _means_by(codes, positions[known])
    level = _means_by(codes, residuals)
    span = place.max() - place.min()
    if span == 0:
        return NotEstimable("all cells have the same position")
    centred, spread = (place - place.mean()) / span, level - level.mean()
    slope = float((centred @ spread) / (centred @ centred))
    return Drift(slope, len(place), _permutation_p(centred, spread, rng, draws))


def _permutation_p(place: FloatArray, level: FloatArray, rng: np.random.Generator, draws: int) -> PValue:
    observed = abs(float(place @ level)) * (1 - 1e-10)
    extreme, left = 0, draws
    while left:
        batch = min(left, max(1, _BATCH // len(level)))
        mixed = rng.permuted(np.tile(level, (batch, 1)), axis=1)
        extreme += int(np.count_nonzero(np.abs(mixed @ place) >= observed))
        left -= batch
    return PValue((1 + extreme) / (1 + draws), f"permutation-monte-carlo-{draws}")


def _means_by(codes: IntArray, values: FloatArray) -> FloatArray:
    counts = np.bincount(codes)
    return np.asarray(np.bincount(codes, weights=values) / np.maximum(counts, 1))
