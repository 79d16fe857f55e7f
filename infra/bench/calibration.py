"""Calibration of tests and intervals: simulated studies by regime, the choice behind `interval = "auto"`, and the manual's table.

    python infra/bench/calibration.py            10,000 studies a regime, about 20 CPU minutes; writes coverage.json and the manual's page
    python infra/bench/calibration.py --quick    a few designs, 300 studies each; writes nothing

Coverage: percent of the 95 % intervals that hold the true difference, among studies that have an interval at all. False positives:
percent of A/A studies with p < 0.05, by the p value that a comparison reports.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import lognorm

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scoring.statistics.bootstrap import bca_interval, percentile_interval, resampled_means  # noqa: E402
from scoring.statistics.estimate import FloatArray, PValue, generator_for  # noqa: E402
from scoring.statistics.exact_tests import mcnemar_exact, sign_flip_test, signs  # noqa: E402
from scoring.statistics.interval import IntervalSettings, cr2_ends  # noqa: E402
from scoring.statistics.regimes import BANDS, Regime, regime_of  # noqa: E402
from scoring.statistics.sign_flips import WildClusters, sign_flip_interval, sign_patterns  # noqa: E402
from scoring.statistics.simulation import OutcomeModel, simulate_differences, sums_by_cluster  # noqa: E402

SEED, ALPHA, DRAWS, WIDTH_STUDIES = 20261130, 0.05, 999, 200
CANDIDATES = ("cr2", "wild", "signflip")
METHODS = (*CANDIDATES, "percentile", "bca")
COVERAGE_FILE = ROOT / "scoring" / "statistics" / "coverage.json"
PAGE = ROOT / "docs" / "calibration.md"


@dataclass(frozen=True)
class Design:
    """Sizes of the clusters of a simulated study."""

    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Scenario:
    """What is true in a simulated study."""

    name: str
    rare: bool
    model: OutcomeModel


@dataclass(frozen=True)
class Cell:
    """What was measured for one design, number of samples and scenario: percentages, and mean widths of intervals."""

    design: Design
    samples: int
    scenario: Scenario
    coverage: dict[str, float]
    width: dict[str, float]
    estimable: dict[str, float]
    false_positives: float | None


def equal(clusters: int, tasks: int) -> Design:
    """Clusters of one size (all of one task: no clusters at all)."""
    name = f"{tasks} tasks, no clusters" if clusters == tasks else f"{tasks} tasks in {clusters} equal clusters"
    return Design(name, (tasks // clusters,) * clusters)


def unequal(clusters: int, tasks: int, spread: float) -> Design:
    """Clusters with log-normal sizes; `spread` is the standard deviation of the logarithm."""
    shares = lognorm.ppf((np.arange(clusters) + 0.5) / clusters, spread)
    sizes = np.maximum(1, np.rint(shares / shares.sum() * tasks)).astype(int)
    return Design(f"{sizes.sum()} tasks in {clusters} clusters, spread {spread}", tuple(int(size) for size in sizes))


DESIGNS = (
    *(equal(tasks, tasks) for tasks in (30, 40, 50, 100, 200, 500)),
    equal(4, 40),
    unequal(4, 60, 1.2),
    equal(8, 80),
    unequal(8, 80, 1.2),
    equal(11, 110),
    Design("169 tasks in 11 clusters (Yuj, SWE-bench Verified)", (69, 24, 23, 13, 12, 7, 6, 6, 6, 2, 1)),
    Design("316 tasks in 11 clusters (Yuj, SWE-bench Pro)", (46, 43, 42, 38, 30, 27, 23, 22, 19, 17, 9)),
    Design("183 tasks in 22 clusters (Yuj, FeatureBench)", (48, 33, 19, 17, 11, 10, 7, 6, 6, 5, 3, *(2,) * 7, *(1,) * 4)),
    equal(20, 100),
    equal(30, 150),
    unequal(30, 200, 0.8),
    unequal(30, 300, 1.2),
    equal(40, 200),
    unequal(40, 200, 0.4),
    unequal(40, 200, 0.8),
    unequal(40, 400, 1.2),
    unequal(60, 300, 1.0),
    equal(100, 500),
    unequal(100, 500, 1.2),
)
QUICK = (DESIGNS[0], DESIGNS[11], DESIGNS[18])
SCENARIOS = (
    Scenario("A/A", False, OutcomeModel(-0.3, 0.0, 1.0, 1.5)),
    Scenario("effect", False, OutcomeModel(-0.3, 0.7, 1.0, 1.5)),
    Scenario("effect varies", False, OutcomeModel(-0.3, 0.7, 1.0, 1.5, 1.6, 0.5)),
    Scenario("effect varies, level 0.15", False, OutcomeModel(-2.6, 0.8, 1.0, 1.5, 0.8, 0.5)),
    Scenario("rare A/A", True, OutcomeModel(-5.5, 0.0, 1.0, 1.5)),
    Scenario("rare effect", True, OutcomeModel(-5.5, 1.5, 1.0, 1.5)),
    Scenario("rare effect varies", True, OutcomeModel(-5.0, 0.8, 1.0, 1.5, 1.0, 0.5)),
)
Task = tuple[Design, int, Scenario, int]


def measure(task: Task) -> Cell:
    """Simulate one cell of the table."""
    design, samples, scenario, studies = task
    sizes = np.asarray(design.sizes, dtype=np.float64)
    rng = generator_for(SEED, design.name, str(samples), scenario.name)
    batches = list(simulate_differences(sizes, samples, scenario.model, studies, rng))
    sums = np.concatenate([sums_by_cluster(batch, sizes) for batch in batches])
    spread = np.abs(sums - (sums.sum(axis=1) / sizes.sum())[:, None] * sizes).max(axis=1)
    sums = sums[spread > 1e-9]
    is_null = scenario.model.true_difference == 0
    coverage, width, estimable = _intervals(sums, sizes, scenario.model.true_difference, rng)
    return Cell(
        design=design,
        samples=samples,
        scenario=scenario,
        coverage=coverage,
        width=width,
        estimable={name: share * len(sums) / studies for name, share in estimable.items()},
        false_positives=_false_positives(batches, samples) if is_null else None,
    )


def _intervals(
    sums: FloatArray, sizes: FloatArray, truth: float, rng: np.random.Generator
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    patterns = sign_patterns(len(sizes), rng, DRAWS)
    means = resampled_means(sums, sizes, rng, DRAWS)
    ends = {
        "cr2": cr2_ends(sums, sizes, IntervalSettings(alpha=ALPHA), rng),
        "signflip": sign_flip_interval(sums, sizes, patterns, ALPHA),
        "percentile": percentile_interval(means, ALPHA),
        "bca": bca_interval(means, sums, sizes, ALPHA),
    }
    coverage, width, estimable = {}, {}, {}
    for name, (low, high) in ends.items():
        finite = np.isfinite(low) & np.isfinite(high)
        estimable[name] = 100 * float(finite.mean())
        if finite.any():
            held = (low <= truth + 1e-12) & (high >= truth - 1e-12)
            coverage[name] = 100 * float(held[finite].mean())
            width[name] = float((high - low)[finite].mean())
    low, high = WildClusters(sums[:WIDTH_STUDIES], sizes, patterns).interval(ALPHA)
    finite = np.isfinite(low) & np.isfinite(high)
    estimable["wild"] = 100 * float(finite.mean())
    if finite.any():
        held = WildClusters(sums, sizes, patterns).p(np.full(len(sums), truth)) > ALPHA
        coverage["wild"], width["wild"] = 100 * float(held.mean()), float((high - low)[finite].mean())
    return coverage, width, estimable


def _false_positives(batches: list[FloatArray], samples: int) -> float:
    studies = [study for batch in batches for study in batch]
    return 100 * float(np.mean([_p(study, samples) < ALPHA for study in studies]))


def _p(differences: FloatArray, samples: int) -> float:
    if samples == 1:
        up, down, _ = signs(differences)
        return _mcnemar(down, up)
    found = sign_flip_test(differences, np.random.default_rng(0), DRAWS)
    return found.p if isinstance(found, PValue) else 1.0


@cache
def _mcnemar(control_only: int, treatment_only: int) -> float:
    return mcnemar_exact(control_only, treatment_only).p


def regimes_of(cells: Sequence[Cell]) -> dict[Regime, list[Cell]]:
    """The cells of each regime that the program tells apart."""
    found: dict[Regime, list[Cell]] = defaultdict(list)
    for cell in cells:
        like = regime_of(np.asarray(cell.design.sizes, dtype=np.float64), 0.0 if cell.scenario.rare else 0.5)
        found[like].append(cell)
    return found


def choose(cells: Sequence[Cell]) -> str:
    """The candidate whose worst coverage is nearest to 95 %, too much counting half as bad as too little."""

    def loss(method: str) -> tuple[float, float]:
        if any(cell.estimable[method] < 80 for cell in cells if not cell.scenario.rare):
            return (np.inf, np.inf)
        covered = [cell.coverage[method] for cell in cells if not cell.scenario.rare]
        worst = max(max(95 - percent, (percent - 95) / 2) for percent in covered)
        return (round(worst, 1), sum(cell.width[method] for cell in cells))

    return min(CANDIDATES, key=loss)


def coverage_document(cells: Sequence[Cell], studies: int) -> dict[str, Any]:
    """What `scoring/statistics/regimes.py` reads."""
    entries, grouped = [], regimes_of(cells)
    for regime in sorted(grouped, key=lambda key: (key.band, not key.balanced, key.rare)):
        alike = [cell for key, found in grouped.items() if key[:2] == regime[:2] for cell in found]
        worst = {
            method: round(min(cell.coverage[method] for cell in grouped[regime]), 1)
            for method in METHODS
            if all(method in cell.coverage for cell in grouped[regime])
        }
        entries.append({**regime._asdict(), "clusters": BANDS[regime.band], "auto": choose(alike), "coverage": worst})
    return {"v": 1, "studies": studies, "seed": SEED, "level": 95, "regimes": entries}
