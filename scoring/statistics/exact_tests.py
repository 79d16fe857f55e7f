"""Exact paired tests: McNemar, sign, and sign-flip permutation.

Rules:
1. Two-sided. Ties say nothing about direction and are dropped; when all pairs are ties, p is 1; without pairs there is
   no p.
2. The permutation test is exact where it can be (whole multiples of a common unit, or few pairs), else Monte-Carlo with
   its draws in its name.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom, binomtest, norm

from scoring.statistics.estimate import FloatArray, IntArray, NotEstimable, PValue

TIE_TOLERANCE = 1e-12
"""Differences closer to 0 are ties: rounding of sums, far below the smallest difference of two real fractions."""
_LARGEST_DENOMINATOR = 64
_LARGEST_LATTICE = 2_000_000
_ENUMERATED_PAIRS = 18
_MONTE_CARLO_PAIRS = 20_000
_BATCH = 2_000_000


def mcnemar_exact(control_only: int, treatment_only: int) -> PValue:
    """Exact McNemar test: binomial test of the discordant pairs (McNemar 1947, Psychometrika 12; the exact form)."""
    discordant = control_only + treatment_only
    p = binomtest(treatment_only, discordant, 0.5).pvalue if discordant else 1.0
    return PValue(float(p), "mcnemar-exact")


def sign_exact(up: int, down: int) -> PValue:
    """Exact sign test, ties dropped (Dixon and Mood 1946, JASA 41)."""
    p = binomtest(up, up + down, 0.5).pvalue if up + down else 1.0
    return PValue(float(p), "sign-exact")


def signs(differences: FloatArray) -> tuple[int, int, int]:
    """How many differences are up, down, tied."""
    up = int(np.count_nonzero(differences > TIE_TOLERANCE))
    down = int(np.count_nonzero(differences < -TIE_TOLERANCE))
    return up, down, len(differences) - up - down


def sign_flip_test(differences: FloatArray, rng: np.random.Generator, draws: int) -> PValue | NotEstimable:
    """Paired permutation test of the mean difference: under no effect each difference may have had either sign.

    Fisher 1935, The Design of Experiments, section 21. Give task means for a test by task, cluster sums for a test by
    cluster.
    """
    if not len(differences):
        return NotEstimable("no pairs")
    moved = np.abs(differences[np.abs(differences) > TIE_TOLERANCE])
    observed = abs(float(differences.sum()))
    if not len(moved):
        return PValue(1.0, "permutation-exact")
    units = _common_units(moved)
    if units is not None:
        return PValue(_lattice_p(units[0], observed * units[1]), "permutation-exact")
    if len(moved) <= _ENUMERATED_PAIRS:
        return PValue(_enumerated_p(moved, observed), "permutation-exact")
    if len(moved) > _MONTE_CARLO_PAIRS:
        return PValue(float(2 * norm.sf(observed / np.sqrt((moved**2).sum()))), "permutation-normal-limit")
    return PValue(_monte_carlo_p(moved, observed, rng, draws), f"permutation-monte-carlo-{draws}")


def _common_units(moved: FloatArray) -> tuple[IntArray, int] | None:
    for denominator in range(1, _LARGEST_DENOMINATOR + 1):
        scaled = moved * denominator
        whole = np.rint(scaled)
        if np.abs(scaled - whole).max() < 1e-9:
            return (whole.astype(np.intp), denominator) if whole.sum() <= _LARGEST_LATTICE else None
    return None


def _lattice_p(units: IntArray, observed: float) -> float:
    total = int(units.sum())
    chances = np.ones(1)
    for unit, count in zip(*np.unique(units, return_counts=True), strict=True):
        flips = np.zeros(int(unit) * int(count) + 1)
        flips[:: int(unit)] = binom.pmf(np.arange(int(count) + 1), int(count), 0.5)
        chances = np.convolve(chances, flips)
    sums = 2 * np.arange(total + 1) - total
    return min(1.0, float(chances[np.abs(sums) >= round(observed)].sum()))


def _enumerated_p(moved: FloatArray, observed: float) -> float:
    sums = np.zeros(1)
    for size in moved:
        sums = np.concatenate([sums - size, sums + size])
    return float(np.mean(np.abs(sums) >= observed - _slack(moved)))


def _monte_carlo_p(moved: FloatArray, observed: float, rng: np.random.Generator, draws: int) -> float:
    extreme, left, total = 0, draws, float(moved.sum())
    while left:
        batch = min(left, max(1, _BATCH // len(moved)))
        bits = np.unpackbits(rng.integers(0, 256, (batch, -(-len(moved) // 8)), dtype=np.uint8), axis=1)
        sums = 2 * (bits[:, : len(moved)].astype(np.float64) @ moved) - total
        extreme += int(np.count_nonzero(np.abs(sums) >= observed - _slack(moved)))
        left -= batch
    return (1 + extreme) / (1 + draws)


def _slack(moved: FloatArray) -> float:
    return 1e-10 * float(moved.sum())
