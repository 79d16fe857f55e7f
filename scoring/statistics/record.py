"""A comparison as the JSON record that checks rely on (20-interface), and its details beside it. None is null.

Nothing else is.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scoring.statistics.comparison import Comparison, Discordance, PairedMeans, PairedTests

_FOURFOLD = ("both", "control_only", "treatment_only", "neither")


def record_of(comparison: Comparison) -> dict[str, Any]:
    """The fixed keys, in their order."""
    question, interval, pairs = comparison.question, comparison.interval, comparison.pairs
    bounds = comparison.bounds or (None, None)
    return {
        "group": dict(question.group),
        "control": question.control,
        "treatment": question.treatment,
        "outcome": question.outcome,
        "planned": question.planned,
        "n_pairs": int(pairs.paired.sum()),
        "n_unpaired": len(pairs.unpaired),
        "n_missing": pairs.missing,
        **_counts(comparison.discordance),
        **_tests(comparison),
        **_means(comparison),
        "ci_low": interval.low if interval else None,
        "ci_high": interval.high if interval else None,
        "ci_method": interval.method if interval else None,
        "clusters": comparison.clusters,
        "bound_low": bounds[0],
        "bound_high": bounds[1],
        "p_holm": comparison.p_holm,
        "note": "; ".join(comparison.notes) or None,
    }


def detail_of(comparison: Comparison) -> dict[str, Any]:
    """Tasks by name, denominators, test by cluster, which p value counts, the estimate without contaminated cells."""
    pairs, tests = comparison.pairs, comparison.tests
    found = tests if isinstance(tests, PairedTests) else None
    names = comparison.discordance
    return {
        "tasks": len(pairs.tasks),
        "samples": pairs.samples,
        "control_only_tasks": list(names.control_only) if names else None,
        "treatment_only_tasks": list(names.treatment_only) if names else None,
        "unpaired_tasks": list(pairs.unpaired),
        "control_cells": asdict(pairs.control.denominators),
        "treatment_cells": asdict(pairs.treatment.denominators),
        "totals_differ": pairs.totals_differ,
        "p_method": found.primary.method if found else None,
        "p_permutation_method": found.permutation.method if found else None,
        "p_permutation_by_cluster": found.permutation_by_cluster.p if found else None,
        "difference_without_contaminated": comparison.difference_without_contaminated,
    }


def _counts(names: Discordance | None) -> dict[str, int | None]:
    return {key: len(getattr(names, key)) if names else None for key in _FOURFOLD}


def _tests(comparison: Comparison) -> dict[str, float | int | None]:
    tests = comparison.tests
    if not isinstance(tests, PairedTests):
        return dict.fromkeys(("p_mcnemar", "n_up", "n_down", "n_tie", "p_sign", "p_permutation"))
    return {
        "p_mcnemar": tests.mcnemar.p if tests.mcnemar else None,
        "n_up": tests.up,
        "n_down": tests.down,
        "n_tie": tests.tie,
        "p_sign": tests.sign.p,
        "p_permutation": tests.permutation.p,
    }


def _means(comparison: Comparison) -> dict[str, float | None]:
    means = comparison.means
    if not isinstance(means, PairedMeans):
        return dict.fromkeys(("mean_control", "mean_treatment", "difference"))
    return {"mean_control": means.control, "mean_treatment": means.treatment, "difference": means.difference}
