"""Calibration of tests and intervals: simulated studies by regime, the choice behind `interval = "auto"`, and the
manual's table.

    python infra/bench/calibration.py            10,000 studies a regime, about 20 CPU minutes; writes coverage.json and
    the manual's page python infra/bench/calibration.py --quick    a few designs, 300 studies each; writes nothing

Coverage: percent of the 95 % intervals that hold the true difference, among studies that have an interval at all. False
positives: percent of A/A studies with p < 0.05, by the p value that a comparison reports.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
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
from scoring.statistics.simulation import OutcomeModel, mean_chance, simulate_differences, sums_by_cluster  # noqa: E402

SEED, ALPHA, DRAWS, WIDTH_STUDIES = 20261130, 0.05, 999, 200
CANDIDATES = ("cr2", "wild", "signflip")
USABLE = 80.0
"""Percent of studies that must have an interval for a method to be chosen."""
LEVEL_NAMES = ("common", "uncommon", "rare")
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
    model: OutcomeModel

    @property
    def level(self) -> float:
        """The mean outcome over both arms."""
        control = mean_chance(self.model.level, float(np.hypot(self.model.cluster_sd, self.model.task_sd)))
        return control + self.model.true_difference / 2


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
    *(equal(tasks, tasks) for tasks in (30, 40, 100, 200, 500)),
    equal(4, 40),
    unequal(4, 60, 1.2),
    equal(8, 80),
    unequal(8, 80, 1.2),
    equal(11, 110),
    Design("169 tasks in 11 clusters (Yuj, SWE-bench Verified)", (69, 24, 23, 13, 12, 7, 6, 6, 6, 2, 1)),
    Design("316 tasks in 11 clusters (Yuj, SWE-bench Pro)", (46, 43, 42, 38, 30, 27, 23, 22, 19, 17, 9)),
    Design(
        "183 tasks in 22 clusters (Yuj, FeatureBench)", (48, 33, 19, 17, 11, 10, 7, 6, 6, 5, 3, *(2,) * 7, *(1,) * 4)
    ),
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
QUICK = (DESIGNS[0], DESIGNS[10], DESIGNS[16])
SCENARIOS = (
    Scenario("A/A", OutcomeModel(-0.3, 0.0, 1.0, 1.5)),
    Scenario("effect", OutcomeModel(-0.3, 0.7, 1.0, 1.5)),
    Scenario("effect varies", OutcomeModel(-0.3, 0.7, 1.0, 1.5, 1.6, 0.5)),
    Scenario("effect varies, level 0.25", OutcomeModel(-1.9, 0.8, 1.0, 1.5, 0.8, 0.5)),
    Scenario("uncommon, effect varies", OutcomeModel(-2.7, 0.8, 1.0, 1.5, 0.8, 0.5)),
    Scenario("uncommon, level 0.08", OutcomeModel(-4.0, 0.8, 1.0, 1.5, 0.8, 0.5)),
    Scenario("rare, A/A", OutcomeModel(-5.5, 0.0, 1.0, 1.5)),
    Scenario("rare, effect", OutcomeModel(-5.5, 1.5, 1.0, 1.5)),
    Scenario("rare, effect varies", OutcomeModel(-5.3, 0.8, 1.0, 1.5, 1.0, 0.5)),
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
    """The cells of each regime that the program tells apart, in order."""
    found: dict[Regime, list[Cell]] = defaultdict(list)
    for cell in cells:
        sizes = np.asarray(cell.design.sizes, dtype=np.float64)
        found[regime_of(sizes, cell.scenario.level)].append(cell)
    return dict(
        sorted(found.items(), key=lambda item: (item[0].band, not item[0].balanced, LEVEL_NAMES.index(item[0].level)))
    )


def choose(cells: Sequence[Cell]) -> str:
    """The candidate whose worst coverage is nearest to 95 %, too much counting half as bad as too little.

    Then the shorter.
    """

    def loss(method: str) -> tuple[float, float]:
        if any(cell.estimable[method] < USABLE for cell in cells):
            return (np.inf, np.inf)
        covered = [cell.coverage[method] for cell in cells]
        worst = max(max(95 - percent, (percent - 95) / 2) for percent in covered)
        return (round(worst, 1), sum(cell.width[method] for cell in cells))

    return min(CANDIDATES, key=loss)


def coverage_document(cells: Sequence[Cell], studies: int) -> dict[str, Any]:
    """What `scoring.statistics.regimes` reads: the choice is made on common outcomes and holds for the others too."""
    grouped = regimes_of(cells)
    entries = []
    for regime, found in grouped.items():
        common = grouped.get(replace(regime, level="common"), found)
        entries.append(
            {
                "band": regime.band,
                "clusters": BANDS[regime.band],
                "balanced": regime.balanced,
                "level": regime.level,
                "auto": choose(common),
                "coverage": _worst_coverage(found),
            }
        )
    return {"v": 1, "studies": studies, "seed": SEED, "level": 95, "regimes": entries}


def page(cells: Sequence[Cell], document: dict[str, Any]) -> str:
    """The manual's page: the choice and the worst coverage by regime, then every simulated cell."""
    chosen = {(entry["band"], entry["balanced"]): entry["auto"] for entry in document["regimes"]}
    error = 200 * float(np.sqrt(0.95 * 0.05 / document["studies"]))
    lines = [
        "# Calibration of tests and intervals",
        "",
        f"Made by `python infra/bench/calibration.py`: {document['studies']:,} simulated studies in each row of the",
        f"second table, seed {document['seed']}; Monte-Carlo error near 95 %: {error:.1f} points (2 sigma).",
        "",
        "## By regime: what `auto` takes, and the worst coverage of each method (percent, nominal 95)",
        "",
        "| regime | auto | " + " | ".join(METHODS) + " |",
        "|---|---|" + "---|" * len(METHODS),
    ]
    for entry in document["regimes"]:
        regime = Regime(entry["band"], entry["balanced"], entry["level"])
        shown = (_bold(f"{entry['coverage'].get(name, '-')}", name == entry["auto"]) for name in METHODS)
        lines.append(f"| {regime.describe()} | {entry['auto']} | " + " | ".join(shown) + " |")
    lines += [
        "",
        "## Every simulated cell",
        "",
        "`A/A p < 0.05`: false positives of the p value that a comparison reports. `no interval`: percent of studies",
        "without one (all pairs are ties).",
        "",
        "| design | samples | scenario | "
        + " | ".join(METHODS)
        + " | mean width of auto | no interval | A/A p < 0.05 |",
        "|---|---|---|" + "---|" * (len(METHODS) + 3),
    ]
    return "\n".join([*lines, *(_row(cell, chosen) for cell in cells)]) + "\n"


def _row(cell: Cell, chosen: dict[tuple[int, bool], str]) -> str:
    regime = regime_of(np.asarray(cell.design.sizes, dtype=np.float64), None)
    auto = chosen[(regime.band, regime.balanced)]
    covered = [_bold(f"{cell.coverage[name]:.1f}" if _usable(cell, name) else "-", name == auto) for name in METHODS]
    positives = "" if cell.false_positives is None else f"{cell.false_positives:.1f}"
    none = 100 - cell.estimable[auto]
    named = f"| {cell.design.name} | {cell.samples} | {cell.scenario.name} | "
    return named + " | ".join(covered) + f" | {cell.width[auto]:.3f} | {none:.1f} | {positives} |"


def _worst_coverage(cells: Sequence[Cell]) -> dict[str, float]:
    return {
        method: round(min(cell.coverage[method] for cell in cells), 1)
        for method in METHODS
        if all(_usable(cell, method) for cell in cells)
    }


def _usable(cell: Cell, method: str) -> bool:
    return cell.estimable[method] >= USABLE / 2 and method in cell.coverage


def _bold(text: str, chosen: bool) -> str:
    return f"**{text}**" if chosen else text


def calibrate(designs: Sequence[Design], studies: int, workers: int) -> Iterator[Cell]:
    """Measure all cells of the designs, each with 1 and 4 samples a task."""
    tasks = [(design, samples, scenario, studies) for design in designs for samples in (1, 4) for scenario in SCENARIOS]
    if workers == 1:
        yield from map(measure, tasks)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(measure, tasks)


def main() -> None:
    """Run the calibration and write, or with --quick only print, its results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three designs, 300 studies each; writes nothing")
    parser.add_argument("--studies", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print the coverage document")
    options = parser.parse_args()
    studies = 300 if options.quick else options.studies
    started = time.monotonic()
    cells = []
    for cell in calibrate(QUICK if options.quick else DESIGNS, studies, options.workers):
        cells.append(cell)
        if not options.json:
            figures = " ".join(f"{name} {percent:.1f}" for name, percent in cell.coverage.items())
            print(f"{cell.design.name}, {cell.samples} samples, {cell.scenario.name}: {figures}", flush=True)
    document = coverage_document(cells, studies)
    if not options.quick:
        COVERAGE_FILE.write_text(json.dumps(document, indent=1) + "\n")
        PAGE.write_text(page(cells, document))
    print(json.dumps(document) if options.json else f"{len(cells)} cells in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
