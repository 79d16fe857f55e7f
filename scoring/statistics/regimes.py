"""Regimes of clustered data, and what the calibration measured in them: which interval method to take, and how often
each covers.

The file `coverage.json` is written by `infra/bench/calibration.py`; its figures are percentages of 10,000 simulated
studies whose 95 % interval held the true difference, the worst of the scenarios simulated in that regime.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from scoring.statistics.clusters import effective_clusters
from scoring.statistics.estimate import FloatArray

BANDS = ((2, 5), (6, 9), (10, 19), (20, 39), (40, 99), (100, None))
"""Numbers of clusters that are treated alike: first and last of each band."""
BALANCED_FROM = 0.8
"""Clusters are balanced when their effective number is at least this share of their number."""
LEVELS = {"rare": 0.05, "uncommon": 0.2}
"""What an outcome is called when its mean, or one minus it, is below this; otherwise it is common."""
TARGET_COVERAGE = 93.0
"""Below this percentage every output says that the interval under-covers."""


@dataclass(frozen=True)
class Regime:
    """What decides how well an interval covers: number of clusters, their balance, and how common the outcome is."""

    band: int
    balanced: bool
    level: str

    def describe(self) -> str:
        """The regime in words."""
        first, last = BANDS[self.band]
        clusters = f"{first} or more" if last is None else f"{first} to {last}"
        balance = "similar sizes" if self.balanced else "unequal sizes"
        return f"{clusters} clusters of {balance}, {self.level} outcome"


@dataclass(frozen=True)
class Calibration:
    """The measured table: the method chosen for (band, balanced), and coverage in percent by regime and method."""

    chosen: Mapping[tuple[int, bool], str]
    coverage: Mapping[tuple[Regime, str], float]


def regime_of(sizes: FloatArray, level: float | None) -> Regime:
    """The regime of clusters of these sizes.

    `level` is the mean outcome from 0 to 1, None for outcomes without such a scale.
    """
    band = max(index for index, (first, _) in enumerate(BANDS) if len(sizes) >= first)
    balanced = effective_clusters(sizes) >= BALANCED_FROM * len(sizes)
    return Regime(band, balanced, level_of(level))


def level_of(mean: float | None) -> str:
    """`rare`, `uncommon` or `common`; an outcome without a scale from 0 to 1 counts as common."""
    if mean is None:
        return "common"
    smaller = round(min(mean, 1 - mean), 9)
    return next((name for name, limit in LEVELS.items() if smaller < limit), "common")


@cache
def calibration() -> Calibration:
    """The calibration that this version of the program carries."""
    document = json.loads(files("scoring.statistics").joinpath("coverage.json").read_text())
    chosen: dict[tuple[int, bool], str] = {}
    coverage: dict[tuple[Regime, str], float] = {}
    for entry in document["regimes"]:
        regime = Regime(entry["band"], entry["balanced"], entry["level"])
        chosen[(regime.band, regime.balanced)] = entry["auto"]
        coverage |= {(regime, method): percent for method, percent in entry["coverage"].items()}
    return Calibration(chosen, coverage)


def coverage_note(regime: Regime, method: str) -> str:
    """`under-covers here: x %` where the calibration says so, or that the regime is not calibrated, else nothing."""
    percent = calibration().coverage.get((regime, method))
    if percent is None:
        return f"not calibrated here ({regime.describe()})"
    return f"under-covers here: {percent:.1f} %" if percent < TARGET_COVERAGE else ""
