"""What a statistical question can be answered with: a number with its method, or the reason why there is none.

Rules: no data is never 0 and never 1; an answer names its method; a seed and a label decide every random number.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class NotEstimable:
    """There is no honest number; `reason` says why in words for a person."""

    reason: str


@dataclass(frozen=True)
class Interval:
    """A confidence interval, in the unit of its estimate; `note` holds what a reader must know to trust it."""

    low: float
    high: float
    method: str
    note: str = ""


@dataclass(frozen=True)
class Estimate:
    """A point estimate with its standard error (None where the method has none) and its interval.

    `n` is what it was computed from.
    """

    value: float
    n: int
    se: float | None
    interval: Interval | NotEstimable


@dataclass(frozen=True)
class PValue:
    """A two-sided p value and the name of the test that made it."""

    p: float
    method: str


def generator_for(seed: int, *labels: str) -> np.random.Generator:
    """The generator of one named question: the same whatever else is computed in the run, and in whatever order."""
    digest = hashlib.sha256("\x1f".join(labels).encode()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:8], "big")])
