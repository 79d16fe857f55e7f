"""A real data set reproduced to the digit, and what is answered when there is little or nothing to compare."""

from __future__ import annotations

import gzip
import hashlib
import math
from pathlib import Path
from typing import Any

import pytest

from cells.errors import UsageError
from scoring.compare import ComparisonPlan, FileOptions, PlannedComparison, compare_file, compare_rows
from scoring.statistics.interval import IntervalMethod
from scoring.statistics.outcomes import OutcomeRow, RowProblem

YUJ = Path(__file__).parents[1] / "data" / "yuj"
JSON_KEYS = (
    *("group", "control", "treatment", "outcome", "planned", "n_pairs", "n_unpaired", "n_missing", "both"),
    *("control_only", "treatment_only", "neither", "p_mcnemar", "n_up", "n_down", "n_tie", "p_sign", "p_permutation"),
    *("mean_control", "mean_treatment", "difference", "ci_low", "ci_high", "ci_method", "clusters"),
    *("bound_low", "bound_high", "p_holm", "note"),
)

QWEN, VERIFIED, PRO, FEATURE = "Qwen3.6-35B-A3B", "SWE-bench Verified", "SWE-bench Pro", "FeatureBench"
# model, benchmark, context, tasks, repositories; both, control only, treatment only, neither; McNemar;
# up, down, tie; sign
COUNTS = [
    (QWEN, VERIFIED, "20480", 169, 11, (38, 5, 34, 92), "2.429907909e-06", (42, 6, 121), "1.008748214e-07"),
    (QWEN, VERIFIED, "43008", 169, 11, (67, 9, 20, 73), "0.06142834574", (21, 10, 138), "0.07075554598"),
    (QWEN, VERIFIED, "262144", 169, 11, (92, 10, 9, 58), "1", (9, 8, 152), "1"),
    (QWEN, PRO, "49152", 316, 11, (25, 6, 47, 238), "5.805322445e-09", (84, 13, 219), "6.926172042e-14"),
    (QWEN, PRO, "262144", 316, 11, (88, 13, 11, 204), "0.8388197422", (22, 24, 270), "0.8829959121"),
    (QWEN, FEATURE, "47104", 183, 22, (2, 0, 1, 180), "1", (47, 9, 127), "2.571572048e-07"),
    (QWEN, FEATURE, "262144", 183, 22, (4, 1, 1, 177), "1", (61, 26, 96), "0.0002236893561"),
    ("Devstral Small 2 24B", VERIFIED, "20480", 169, 11, (15, 7, 38, 109), "3.121309646e-06", (47, 12, 110), "5.12562925e-06"),  # noqa: E501
    ("Nemotron-Cascade 2 30B-A3B", VERIFIED, "20480", 169, 11, (11, 5, 14, 139), "0.06356811523", (17, 5, 147), "0.0169005394"),  # noqa: E501
    ("Qwen3.8-27B", VERIFIED, "20480", 169, 11, (32, 0, 22, 115), "4.768371582e-07", (28, 0, 141), "7.450580597e-09"),
]  # fmt: skip
# mean F2P of control and treatment; of resolved and of F2P: difference, low, high; totals differ; zero denominators
ESTIMATES = [
    ("0.279931", "0.491047", ("+0.171598", "+0.096154", "+0.200704"), ("+0.211116", "+0.138885", "+0.249744"), 74, (105, 41)),  # noqa: E501
    ("0.537644", "0.601183", ("+0.065089", "+0.034383", "+0.126214"), ("+0.063539", "+0.023672", "+0.137453"), 23, (33, 12)),  # noqa: E501
    ("0.689941", "0.686982", ("-0.005917", "-0.041096", "+0.066667"), ("-0.002959", "-0.025055", "+0.055556"), 3, (1, 2)),  # noqa: E501
    ("0.152256", "0.326768", ("+0.129747", "+0.081816", "+0.192001"), ("+0.174511", "+0.118717", "+0.242290"), 0, (0, 0)),  # noqa: E501
    ("0.448480", "0.445336", ("-0.006329", "-0.018519", "+0.009903"), ("-0.003144", "-0.021861", "+0.021455"), 0, (0, 0)),  # noqa: E501
    ("0.105344", "0.196420", ("+0.005464", "+0.000000", "+0.015385"), ("+0.091076", "+0.057066", "+0.140899"), 52, (5, 7)),  # noqa: E501
    ("0.239212", "0.306738", ("+0.000000", "-0.014152", "+0.017241"), ("+0.067526", "+0.003914", "+0.126548"), 36, (12, 8)),  # noqa: E501
    ("0.172239", "0.367632", ("+0.183432", "+0.118179", "+0.285714"), ("+0.195393", "+0.116134", "+0.335648"), 61, (62, 37)),  # noqa: E501
    ("0.119675", "0.183432", ("+0.053254", "-0.018349", "+0.090698"), ("+0.063757", "+0.000000", "+0.099393"), 71, (105, 46)),  # noqa: E501
    ("0.204339", "0.353452", ("+0.130178", "+0.075472", "+0.179310"), ("+0.149112", "+0.083333", "+0.203518"), 51, (124, 77)),  # noqa: E501
]  # fmt: skip


@pytest.fixture(scope="module")
def yuj() -> list[dict[str, Any]]:
    report = compare_file(
        YUJ / "yuj_task_outcomes.tsv.gz",
        YUJ / "yuj_task_outcomes.mapping.toml",
        FileOptions(interval=IntervalMethod.YUJ),
    )
    records: Any = report.as_json(details=True)["comparisons"]
    return list(records)


def test_the_yuj_file_is_the_published_one() -> None:
    content = gzip.decompress((YUJ / "yuj_task_outcomes.tsv.gz").read_bytes())
    assert hashlib.sha256(content).hexdigest() == "68ca128d2bc7f1184984a1e6483bd1e5f7b7d8b32a1b11d2944eb47c6f3a5370"


def test_yuj_comparisons_come_in_the_order_of_the_file_one_per_group_and_outcome(yuj: list[dict[str, Any]]) -> None:
    found = [(*record["group"].values(), record["outcome"]) for record in yuj]
    assert found == [(*row[:3], outcome) for row in COUNTS for outcome in ("resolved", "f2p_fraction")]


@pytest.mark.parametrize("index", range(10))
def test_yuj_counts_and_p_values_to_ten_digits(yuj: list[dict[str, Any]], index: int) -> None:
    *_, tasks, repositories, fourfold, mcnemar, moved, sign = COUNTS[index]
    resolved, fraction = yuj[2 * index], yuj[2 * index + 1]
    for record in (resolved, fraction):
        assert (record["n_pairs"], record["clusters"], record["n_unpaired"], record["n_missing"]) == (
            tasks,
            repositories,
            0,
            0,
        )
    assert tuple(resolved[key] for key in ("both", "control_only", "treatment_only", "neither")) == fourfold
    assert f"{resolved['p_mcnemar']:.10g}" == mcnemar
    assert tuple(fraction[key] for key in ("n_up", "n_down", "n_tie")) == moved
    assert f"{fraction['p_sign']:.10g}" == sign


@pytest.mark.parametrize("index", range(10))
def test_yuj_means_differences_and_intervals_to_six_decimals(yuj: list[dict[str, Any]], index: int) -> None:
    control, treatment, resolved, fraction, totals_differ, zeros = ESTIMATES[index]
    record = yuj[2 * index + 1]
    assert (f"{record['mean_control']:.6f}", f"{record['mean_treatment']:.6f}") == (control, treatment)
    for found, expected in ((yuj[2 * index], resolved), (record, fraction)):
        assert tuple(f"{found[key]:+.6f}" for key in ("difference", "ci_low", "ci_high")) == expected
        assert found["ci_method"] == "yuj-percentile-cluster"
    details = record["details"]
    assert details["totals_differ"] == totals_differ
    assert (details["control_cells"]["zero_totals"], details["treatment_cells"]["zero_totals"]) == zeros


def test_yuj_permutation_test_of_one_sample_yes_or_no_outcomes_is_mcnemars(yuj: list[dict[str, Any]]) -> None:
    for record in yuj[::2]:
        assert record["p_permutation"] == pytest.approx(record["p_mcnemar"], rel=1e-12)


def test_the_reproduction_method_says_that_it_under_covers_with_so_few_clusters(yuj: list[dict[str, Any]]) -> None:
    assert all("under-covers here: " in record["note"] for record in yuj)


def test_records_have_exactly_the_keys_of_the_interface_in_their_order(yuj: list[dict[str, Any]]) -> None:
    assert tuple(key for key in yuj[0] if key != "details") == JSON_KEYS


PLAN = ComparisonPlan((PlannedComparison("a", "b"),), seed=1)


def rows(outcomes: dict[str, tuple[float | None, float | None]], sample: int = 1) -> list[OutcomeRow]:
    """One cell an arm: `a` and `b` of each task, clusters by the first letter of the task."""
    return [
        OutcomeRow(task, arm, {"resolved": value}, cluster=task[0], sample=sample)
        for task, values in outcomes.items()
        for arm, value in zip("ab", values, strict=True)
    ]


def record(cells: list[OutcomeRow], plan: ComparisonPlan = PLAN, index: int = 0) -> dict[str, Any]:
    records: Any = compare_rows(cells, plan).as_json(details=True)["comparisons"]
    return dict(records[index])


def test_a_missing_value_is_unpaired_and_named_and_never_a_failure() -> None:
    found = record(rows({"t1": (1, 1), "t2": (0, 1), "u1": (1, None), "u2": (0, 0)}))
    assert (found["n_pairs"], found["n_unpaired"], found["n_missing"]) == (3, 1, 1)
    assert found["details"]["unpaired_tasks"] == ["u1"]
    assert found["mean_control"] == pytest.approx(1 / 3)


def test_a_cell_that_is_not_there_counts_as_missing_like_one_without_a_value() -> None:
    cells = rows({"t1": (1, 1), "t2": (0, 1), "u1": (1, 0)})
    found = record([cell for cell in cells if (cell.task, cell.arm) != ("u1", "b")])
    assert (found["n_pairs"], found["n_unpaired"], found["n_missing"]) == (2, 1, 1)


def test_bounds_count_all_missing_cells_against_and_for_the_treatment() -> None:
    found = record(rows({"t1": (1, 1), "t2": (0, 1), "u1": (None, 1), "u2": (0, None)}))
    assert found["difference"] == pytest.approx(0.5)
    assert (found["bound_low"], found["bound_high"]) == (pytest.approx(1 / 4), pytest.approx(3 / 4))


def test_bounds_equal_the_estimate_when_nothing_is_missing() -> None:
    found = record(rows({"t1": (1, 1), "t2": (0, 1)}))
    assert found["bound_low"] == found["difference"] == found["bound_high"]


def test_several_samples_are_task_means_without_the_four_counts() -> None:
    cells = rows({"t1": (1, 1), "t2": (0, 1), "u1": (0, 0)}) + rows(
        {"t1": (0, 1), "t2": (0, 1), "u1": (0, 0)}, sample=2
    )
    found = record(cells)
    nulls = ("both", "control_only", "treatment_only", "neither", "p_mcnemar")
    assert all(found[key] is None for key in nulls)
    assert (found["n_pairs"], found["n_up"], found["n_down"], found["n_tie"]) == (3, 2, 0, 1)
    assert found["difference"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert found["p_permutation"] == pytest.approx(0.5)
    assert "task means of up to 2 samples" in found["note"]


def test_discordant_pairs_are_listed_by_name() -> None:
    details = record(rows({"t1": (1, 0), "t2": (0, 1), "t3": (0, 1), "u1": (1, 1)}))["details"]
    assert (details["control_only_tasks"], details["treatment_only_tasks"]) == (["t1"], ["t2", "t3"])


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([], "arm a has no cells here (arms: none)"),
        ([OutcomeRow("t1", "a", {"resolved": 1})], "arm b has no cells here (arms: a)"),
        (rows({"t1": (1, None), "u1": (None, 0)}), "no task has a value in both arms"),
    ],
)
def test_no_pair_is_not_estimable_with_the_reason_and_never_zero_or_one(cells: list[OutcomeRow], reason: str) -> None:
    found = record(cells)
    stated = {
        "n_pairs": 0,
        "clusters": 0,
        "planned": True,
        "n_unpaired": found["n_unpaired"],
        "n_missing": found["n_missing"],
    }
    for key in JSON_KEYS:
        if key not in ("group", "control", "treatment", "outcome", "note"):
            assert found[key] == stated.get(key)
    assert "not estimable" in found["note"] and reason in found["note"]


def test_one_pair_has_a_difference_and_no_interval() -> None:
    found = record(rows({"t1": (0, 1)}))
    assert (found["difference"], found["p_mcnemar"], found["ci_low"], found["ci_high"]) == (1.0, 1.0, None, None)
    assert "one cluster" in found["note"]


def test_all_ties_have_no_interval_and_say_how_many_could_differ() -> None:
    found = record(rows({f"{letter}1": (1, 1) for letter in "tuvwxyz"}))
    assert (found["difference"], found["p_mcnemar"], found["p_permutation"], found["ci_method"]) == (
        0.0,
        1.0,
        1.0,
        None,
    )
    assert "all 7 pairs are ties" in found["note"] and f"{100 * (1 - 0.05 ** (1 / 7)):.1f} %" in found["note"]


def test_holm_adjusts_planned_comparisons_only_and_marks_the_others_exploratory() -> None:
    cells = rows({f"t{index}": (0, 1) for index in range(6)})
    cells += [OutcomeRow(f"t{index}", "c", {"resolved": 0}, cluster="t") for index in range(6)]
    plan = ComparisonPlan(
        (
            PlannedComparison("a", "b"),
            PlannedComparison("a", "c"),
            PlannedComparison("c", "b", planned=False),
        ),
        seed=1,
    )
    records: Any = compare_rows(cells, plan).as_json()["comparisons"]
    assert [found["p_holm"] for found in records] == [2 * 0.03125, 1.0, None]
    assert [("exploratory" in (found["note"] or "")) for found in records] == [False, False, True]


def test_a_planned_comparison_without_cells_still_counts_in_the_family() -> None:
    plan = ComparisonPlan((PlannedComparison("a", "b"), PlannedComparison("a", "lost")), seed=1)
    found = record(rows({f"t{index}": (0, 1) for index in range(6)}), plan)
    assert found["p_holm"] == 2 * found["p_mcnemar"]


def test_an_unplanned_question_about_an_unknown_arm_is_refused_with_the_arms_there_are() -> None:
    plan = ComparisonPlan((PlannedComparison("a", "nosuch", planned=False),), seed=1)
    with pytest.raises(UsageError, match=r"arm nosuch has no cells here; arms: a, b"):
        compare_rows(rows({"t1": (0, 1)}), plan)


def test_an_arm_compared_with_itself_is_refused() -> None:
    with pytest.raises(UsageError, match="with itself"):
        compare_rows(rows({"t1": (0, 1)}), ComparisonPlan((PlannedComparison("a", "a"),), seed=1))


def test_contaminated_cells_are_included_and_the_estimate_without_them_stands_beside() -> None:
    cells = rows({"t1": (0, 1), "t2": (0, 0)})
    cells[1] = OutcomeRow("t1", "b", {"resolved": 1}, cluster="t", contaminated=True)
    found = record(cells)
    assert (found["n_pairs"], found["difference"]) == (2, 0.5)
    assert found["details"]["difference_without_contaminated"] == 0.0
    assert "1 contaminated cells included; difference without them: +0.0000" in found["note"]


def test_states_of_cells_are_counted_by_arm() -> None:
    cells = [
        *rows({"t1": (0, 1)}),
        OutcomeRow("t2", "a", {"resolved": None}, cluster="t", state="invalid"),
        OutcomeRow("t2", "b", {"resolved": None}, cluster="t", state="not_run"),
    ]
    details = record(cells)["details"]
    assert details["control_cells"]["states"] == {"invalid": 1, "valid": 1}
    assert details["treatment_cells"]["states"] == {"not_run": 1, "valid": 1}


def test_an_outcome_without_a_fixed_range_has_no_bounds_when_cells_are_missing() -> None:
    cells = [
        OutcomeRow(task, arm, {"cost": cost})
        for task, costs in {"t": (1.0, 2.0), "u": (2.0, 2.5), "v": (1.0, None)}.items()
        for arm, cost in zip("ab", costs, strict=True)
    ]
    found = record(cells, ComparisonPlan((PlannedComparison("a", "b", ("cost",)),), seed=1))
    assert (found["difference"], found["bound_low"], found["bound_high"]) == (0.75, None, None)
    assert "no bounds" in found["note"]


def test_clusters_can_be_the_tasks_themselves() -> None:
    cells = rows({"t1": (0, 1), "t2": (0, 0), "u1": (1, 1)})
    by_task = ComparisonPlan((PlannedComparison("a", "b", cluster="task"),), seed=1)
    assert (record(cells)["clusters"], record(cells, by_task)["clusters"]) == (2, 3)


@pytest.mark.parametrize(("value", "found"), [(math.nan, "nan"), (math.inf, "inf"), (-1, "-1"), (0.5, "0.5"), (2, "2")])
def test_a_verdict_that_is_not_zero_or_one_is_refused_by_row_and_field(value: float, found: str) -> None:
    with pytest.raises(RowProblem) as refusal:
        compare_rows(rows({"t1": (0, 1), "t2": (0, value)}), PLAN)
    assert str(refusal.value) == f"row 4, column `resolved`: found {found}; allowed: 0 or 1, or nothing"


def test_a_cell_given_twice_is_refused() -> None:
    with pytest.raises(RowProblem, match=r"row 3, column `task`: found cell t1/a/1 a second time"):
        compare_rows([*rows({"t1": (0, 1)}), *rows({"t1": (1, 1)})], PLAN)


def test_a_task_in_two_clusters_is_refused() -> None:
    cells = [OutcomeRow("t1", "a", {"resolved": 1}, cluster="x"), OutcomeRow("t1", "b", {"resolved": 1}, cluster="y")]
    with pytest.raises(RowProblem, match=r"row 2, column `cluster`: found task t1 in y"):
        compare_rows(cells, PLAN)


def test_text_and_markdown_show_every_denominator_and_name() -> None:
    report = compare_rows(rows({"t1": (1, 0), "t|2": (0, 1), "u1": (1, None)}), PLAN)
    for text in (report.as_text(), report.as_markdown()):
        for shown in (
            "b - a",
            "unpaired 1: u1",
            "2 of 3 with a value, 1 missing",
            "control only 1: t1",
            "mcnemar-exact",
        ):
            assert shown in text
    assert "treatment only 1: t\\|2" in report.as_markdown()


def test_a_name_cannot_write_to_the_terminal_nor_mark_up_the_page() -> None:
    report = compare_rows(rows({"t\x1b[2J": (1, 0), "t![x](y)": (0, 1), "t\nu": (0, 1)}), PLAN)
    for text in (report.as_text(), report.as_markdown()):
        assert "\x1b" not in text and "t\nu" not in text
    assert "t\\x1b[2J" in report.as_text()
    assert "![x]" not in report.as_markdown()


def test_a_refusal_cannot_write_to_the_terminal() -> None:
    with pytest.raises(RowProblem) as refusal:
        compare_rows([*rows({"t\x1b[2J": (0, 1)}), *rows({"t\x1b[2J": (1, 1)})], PLAN)
    assert "\x1b" not in str(refusal.value)
