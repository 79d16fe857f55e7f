"""The claim says no more than the numbers, and everything that weakens it stands under it."""

from __future__ import annotations

from typing import Any

import pytest

from scoring.report.analysis import Analysis, analyse
from scoring.report.claim import caveats, claim
from scoring.report.contents import Revision, StudyContents
from tests.scoring.report.synthetic import Synthetic, contents, plan


def made(**wanted: Any) -> tuple[StudyContents, Analysis]:
    what = Synthetic(**wanted)
    found = contents(what)
    return found, analyse(found, plan(what))


def serious(**wanted: Any) -> list[str]:
    return [one.words for one in caveats(*made(**wanted)) if one.weight == "serious"]


def test_a_clear_difference_is_said_with_its_interval_and_both_p_values() -> None:
    words = claim(*made())
    assert words.startswith("treatment is higher than control in tasks resolved: ")
    for part in ("95 % interval +", "p = ", "after Holm", "12 paired tasks in 6 repositories"):
        assert part in words


def test_a_treatment_that_is_worse_is_said_to_be_lower() -> None:
    assert claim(*made(rates={"control": 0.9, "treatment": 0.2})).startswith("treatment is lower than control")


def test_equal_arms_are_no_claim_of_a_difference() -> None:
    assert claim(*made(rates={})).startswith("No difference is shown between treatment and control")


def test_few_tasks_do_not_make_a_claim_however_large_the_difference() -> None:
    words = claim(*made(tasks=("a", "b", "c"), rates={"control": 0.0, "treatment": 1.0}))
    assert words.startswith("No difference is shown")
    assert "+100.0 points" in words


def test_no_data_is_no_claim_and_never_a_number() -> None:
    words = claim(*made(missing=24))
    assert words.startswith("No claim: treatment against control in tasks resolved cannot be estimated")
    assert "%" not in words


def test_without_a_planned_comparison_there_is_no_claim() -> None:
    found = contents(Synthetic(arms=("only",)))
    assert claim(found, analyse(found, plan(Synthetic(arms=("only",))))) == (
        "No claim: the plan of this study fixes no comparison."
    )


def test_hidden_verdicts_make_no_claim() -> None:
    found = contents(Synthetic(blind=True))
    assert claim(found, None).startswith("No claim yet: 48 of 48 cells have a result")
    assert caveats(found, None)[0].weight == "serious"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            {"unblinded": ("by assay status --unblind, after 3 results of arms",)},
            "looked at before the study was closed",
        ),
        ({"withheld": {"task-01": "oracle unresolved"}}, "Withheld, since a control failed: task-01"),
        ({"runtimes": 2}, "Mixed runtimes: cells ran on 2 different machines"),
    ],
)
def test_what_weakens_a_claim_is_called_out(wanted: dict[str, Any], words: str) -> None:
    assert any(words in one for one in serious(**wanted))
    assert not serious()


def test_an_analysis_changed_after_the_first_verdict_is_called_out() -> None:
    changed = Revision(2, 5, False, 0, ("comparisons: 1 entry became 2",))
    (words,) = serious(revisions=(changed,))
    assert words.startswith("The planned analysis was changed after the first verdict (revision 2): 5 cells already")
    assert "comparisons: 1 entry became 2" in words


def test_a_revision_before_any_verdict_is_not_called_out() -> None:
    assert not serious(revisions=(Revision(2, 0, False, 4, ("study.samples: 1 became 2",)),))


def test_missing_and_contaminated_cells_are_told() -> None:
    words = [one.words for one in caveats(*made(missing=3, contaminated=2))]
    assert any(one.startswith("3 cells of the arms without a result") for one in words)
    assert any(one.startswith("2 contaminated cells included") for one in words)
