"""The noise floor: the differences that mean nothing, from arms that are the same, so that an estimate can be laid
beside them.

Two sources: A/A arms (two arms of one content), whose task differences may have had either sign; or the samples of one
arm, split at random into two halves, scaled to what two whole arms would differ by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scoring.statistics.estimate import FloatArray, IntArray, NotEstimable

LEVEL = 0.95


@dataclass(frozen=True)
class NoiseFloor:
    """The middle 95 % of differences of the mean that arise without any effect.

    `observed`: the A/A differences that were measured.
    """

    low: float
    high: float
    sd: float
    draws: int
    source: str
    observed: tuple[float, ...]
    null_differences: FloatArray

    def share_as_large(self, difference: float) -> float:
        """The share of null differences at least as far from 0 as this one (the observed one counts: never 0)."""
        return float(
            (1 + np.count_nonzero(np.abs(self.null_differences) >= abs(difference) - 1e-12)) / (1 + self.draws)
        )


def floor_of_arms(
    differences: tuple[FloatArray, ...], rng: np.random.Generator, draws: int
) -> NoiseFloor | NotEstimable:
    """From A/A comparisons: `differences` holds the task differences of each. Signs are drawn anew, task by task."""
    usable = [one for one in differences if len(one)]
    if not usable:
        return NotEstimable("no A/A comparison with a paired task")
    null = np.concatenate([_flipped_means(one, rng, -(-draws // len(usable))) for one in usable])
    return _floor(null, "A/A arms", tuple(float(one.mean()) for one in usable))


def floor_of_samples(
    values: FloatArray, tasks: IntArray, rng: np.random.Generator, draws: int
) -> NoiseFloor | NotEstimable:
    """From the samples of one arm: `values` of its cells and the task code of each; tasks with one sample are left out.

    The halves of a task with n samples differ with variance s2 (1/floor(n/2) + 1/ceil(n/2)), two whole arms with s2
    (2/n).
    """
    order = np.argsort(tasks, kind="stable")
    _, starts, counts = np.unique(tasks[order], return_index=True, return_counts=True)
    several = counts > 1
    if not several.any():
        return NotEstimable("no task has two samples in this arm")
    total = np.zeros(draws)
    for start, count in zip(starts[several], counts[several], strict=True):
        total += _half_differences(values[order[start : start + count]], rng, draws)
    return _floor(total / int(several.sum()), "samples of one arm", ())


def _flipped_means(differences: FloatArray, rng: np.random.Generator, draws: int) -> FloatArray:
    flips = rng.integers(0, 2, (draws, len(differences)), dtype=np.int8)
    return np.asarray((2.0 * (flips @ differences) - differences.sum()) / len(differences))


def _half_differences(samples: FloatArray, rng: np.random.Generator, draws: int) -> FloatArray:
    count = len(samples)
    half = count // 2
    mixed = rng.permuted(np.tile(samples, (draws, 1)), axis=1)
    scale = np.sqrt((2 / count) / (1 / half + 1 / (count - half)))
    return np.asarray(scale * (mixed[:, :half].mean(axis=1) - mixed[:, half:].mean(axis=1)))


def _floor(null: FloatArray, source: str, observed: tuple[float, ...]) -> NoiseFloor:
    low, high = np.quantile(null, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return NoiseFloor(float(low), float(high), float(null.std()), len(null), source, observed, null)
