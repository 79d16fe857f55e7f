"""Aggregation of a large study: a million cells in partitioned Parquet, 19 arms against one control, and the obvious
pandas version.

    python infra/bench/aggregate.py [--json] [--tasks N] [--samples N] [--keep DIR]

Both versions read the same files and make the per-arm table and, for each arm, the paired difference with a cluster
bootstrap of 2,000 resamples. Ours also makes everything else of a comparison record (exact tests, bounds, denominators,
notes). Each runs in a process of its own; wall seconds and peak resident memory are those of that process, starting and
importing included.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

ARMS, CLUSTERS, RESAMPLES, SEED = 20, 500, 2_000, 20261130
OUTCOMES = ("resolved", "f2p_fraction")
LIMIT_S, LIMIT_MB = 30.0, 2_048.0


def arm_name(number: int) -> str:
    """`arm-00` is the control."""
    return f"arm-{number:02}"


def write_cells(directory: Path, tasks: int, samples: int) -> int:
    """Write tasks x samples x 20 synthetic cells, partitioned by arm; returns how many. A few cells are invalid."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    rng = np.random.default_rng(SEED)
    chance = rng.beta(0.6, 0.9, tasks)
    clusters = rng.integers(0, CLUSTERS, tasks)
    for number in range(ARMS):
        gain = np.clip(chance + 0.002 * number, 0, 1)
        solved = rng.random((tasks, samples)) < gain[:, None]
        invalid = rng.random((tasks, samples)) < 0.003
        total = rng.integers(0, 9, (tasks, samples))
        passed = np.where(solved, total, rng.binomial(total, 0.3 * gain[:, None]))
        columns = {
            "task": pa.array([f"task-{index:05}" for index in np.repeat(np.arange(tasks), samples)]),
            "repository": pa.array([f"repository-{code:03}" for code in np.repeat(clusters, samples)]),
            "arm": pa.array([arm_name(number)] * (tasks * samples)),
            "sample": pa.array(np.tile(np.arange(1, samples + 1), tasks).astype(np.int32)),
            "verdict": pa.array(np.where(invalid, "invalid", np.where(solved, "resolved", "unresolved")).ravel()),
            "contaminated": pa.array(rng.random(tasks * samples) < 0.01),
            "resolved": pa.array(solved.ravel().astype(np.int8), mask=invalid.ravel()),
            "f2p_passed": pa.array(passed.ravel().astype(np.int32), mask=invalid.ravel()),
            "f2p_total": pa.array(total.ravel().astype(np.int32), mask=invalid.ravel()),
            "f2p_fraction": pa.array((passed / np.maximum(total, 1)).ravel(), mask=invalid.ravel()),
            "cost": pa.array(rng.gamma(2.0, 0.05, tasks * samples)),
        }
        ds.write_dataset(pa.table(columns), directory / f"part={number:02}", format="parquet")
    return tasks * samples * ARMS


def ours(directory: Path) -> list[dict[str, Any]]:
    """Per-arm table and 19 comparisons on both outcomes by the product's own code."""
    from scoring.compare import ComparisonPlan, PlannedComparison, compare_table
    from scoring.statistics.arm_table import arm_table
    from scoring.statistics.cell_columns import read_cells
    from scoring.statistics.interval import IntervalMethod

    table = read_cells(directory, OUTCOMES)
    comparisons = tuple(PlannedComparison(arm_name(0), arm_name(number), OUTCOMES) for number in range(1, ARMS))
    plan = ComparisonPlan(
        comparisons, SEED, interval=IntervalMethod.BCA, resamples=RESAMPLES, permutation_draws=RESAMPLES
    )
    summaries = [summary for outcome in OUTCOMES for summary in arm_table(table, 0, outcome, plan.alpha)]
    records: Any = compare_table(table, plan).as_json()["comparisons"]
    means = {(one.arm, one.outcome): one.means.clustered for one in summaries}
    return [{**record, "arms": len(means)} for record in records]


def with_pandas(directory: Path) -> list[dict[str, Any]]:
    """The obvious version: groupby, pivot, and a loop of resampled clusters."""
    import pandas as pd

    frame = pd.read_parquet(directory)
    records = []
    for outcome in OUTCOMES:
        frame.groupby("arm")[outcome].agg(["mean", "sem", "count"])
        means = frame.groupby(["task", "repository", "arm"])[outcome].mean().unstack("arm")
        for number in range(1, ARMS):
            difference = (means[arm_name(number)] - means[arm_name(0)]).dropna()
            clusters = difference.groupby("repository").agg(["sum", "count"])
            draws = []
            for draw in range(RESAMPLES):
                drawn = clusters.sample(frac=1, replace=True, random_state=draw)
                draws.append(drawn["sum"].sum() / drawn["count"].sum())
            low, high = np.percentile(draws, [2.5, 97.5])
            records.append(
                {"treatment": arm_name(number), "outcome": outcome, "difference": float(difference.mean())}
                | {"ci_low": float(low), "ci_high": float(high)}
            )
    return records


def timed(version: str, directory: Path) -> dict[str, Any]:
    """Run one version in a process of its own; wall seconds, CPU seconds, peak MiB, and what it found."""
    started = time.monotonic()
    command = [sys.executable, __file__, "--version-only", version, "--keep", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"wall_s": round(time.monotonic() - started, 2), **json.loads(done.stdout)}


def run_version(version: str, directory: Path) -> None:
    """The inner process: compute, then print the figures of this process."""
    found = {"ours": ours, "pandas": with_pandas}[version](directory)
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {"cpu_s": round(used.ru_utime + used.ru_stime, 2), "peak_mb": round(used.ru_maxrss / 1024, 1)}
    print(json.dumps(figures | {"comparisons": found}))


def compare_versions(directory: Path, cells: int, *, pandas: bool) -> dict[str, Any]:
    """Both versions on the same files, and the largest distance between their differences."""
    result: dict[str, Any] = {"cells": cells, "arms": ARMS, "resamples": RESAMPLES, "ours": timed("ours", directory)}
    mine = {(one["treatment"], one["outcome"]): one["difference"] for one in result["ours"].pop("comparisons")}
    result["within_limits"] = result["ours"]["wall_s"] < LIMIT_S and result["ours"]["peak_mb"] < LIMIT_MB
    if pandas:
        result["pandas"] = timed("pandas", directory)
        theirs = result["pandas"].pop("comparisons")
        result["largest_distance"] = max(
            abs(one["difference"] - mine[one["treatment"], one["outcome"]]) for one in theirs
        )
    return result


def main() -> None:
    """Write the cells, run both versions, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=5_000)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="where the Parquet files go; by default a directory that is removed")
    parser.add_argument("--no-pandas", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--version-only", choices=("ours", "pandas"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.version_only:
        run_version(options.version_only, options.keep)
        return
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.keep or Path(temporary)
        cells = write_cells(directory, options.tasks, options.samples)
        result = compare_versions(directory, cells, pandas=not options.no_pandas)
    print(json.dumps(result) if options.json else _shown(result))


def _shown(result: dict[str, Any]) -> str:
    lines = [f"{result['cells']:,} cells, {result['arms']} arms, {result['resamples']:,} resamples"]
    for version in ("ours", "pandas"):
        if version in result:
            figures = result[version]
            lines.append(
                f"{version}: {figures['wall_s']} s wall, {figures['cpu_s']} s CPU, peak {figures['peak_mb']} MiB"
            )
    return "\n".join([*lines, f"within {LIMIT_S:.0f} s and {LIMIT_MB:.0f} MiB: {result['within_limits']}"])


if __name__ == "__main__":
    main()
