"""SWE-bench: predictions, reports of instances and run reports as rows.

Rules (swebench 5.0.2, `swebench/harness/reporting.py`, `grading.py`, `infra_failure.py`):
1. `resolved` is believed only beside the facts that make it true; a report that contradicts itself is refused.
2. What SWE-bench counts as unresolved although the environment broke, no test output was found or the evaluation
   raised an error is `invalid` here: an unknown failure is never a score.
3. An instance without a prediction is `not_run`. Predictions alone say nothing about a verdict: null.
4. `arm` is `model_name_or_path`, which names an agent as often as a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cells.outcome import PatchState, Verdict, resolved_of
from scoring.interop.reading import (
    Field,
    Row,
    document,
    file_digest,
    foreign_row,
    json_lines,
    patch_columns,
    refuse_repeated,
)

RUN_REPORT_VERSION = 2
_OVERLAPPING = (
    ("resolved_ids", "unresolved_ids"),
    ("resolved_ids", "error_ids"),
    ("unresolved_ids", "error_ids"),
    ("empty_patch_ids", "completed_ids"),
    ("incomplete_ids", "submitted_ids"),
    ("infra_failure_ids", "resolved_ids"),
    ("infra_failure_ids", "ambiguous_failure_ids"),
    ("ambiguous_failure_ids", "resolved_ids"),
)
_LISTS = (
    "submitted_ids",
    "completed_ids",
    "incomplete_ids",
    "empty_patch_ids",
    "resolved_ids",
    "unresolved_ids",
    "infra_failure_ids",
    "ambiguous_failure_ids",
    "error_ids",
)


def prediction_rows(path: Path) -> list[Row]:
    """A row a prediction, of a `.jsonl` file or of a JSON object keyed by instance."""
    lines = json_lines(path) if path.suffix == ".jsonl" else _keyed_predictions(document(path))
    source = _Source(_run_name(path), file_digest(path))
    return refuse_repeated((_prediction_row(one, source) for one in lines), str(path), "instance_id")


def instance_report_rows(path: Path) -> list[Row]:
    """The row of a `report.json`. Where it stands as SWE-bench puts it (`<run>/<model>/<instance>/report.json`), run
    and model are taken from there."""
    entries = list(document(path).entries())
    folder = path.absolute().parent
    in_place = len(entries) == 1 and folder.name == entries[0][0]
    arm = folder.parent.name if in_place else None
    source = _Source(folder.parent.parent.name if in_place else _run_name(path), file_digest(path))
    return [_report_row(name, report, arm, source) for name, report in entries]


def run_report_rows(path: Path) -> list[Row]:
    """A row an instance of a run report `<model>.<run_id>.json` of schema version 2."""
    report = document(path)
    version = report.at("schema_version")
    if version.value != RUN_REPORT_VERSION or isinstance(version.value, bool):
        version.refuse(f"found {version.value!r}; read is version {RUN_REPORT_VERSION}")
    ids = _instance_lists(report)
    reasons = {name: reason.word() for name, reason in report.at("failure_reasons").entries()}
    source = _Source(path.stem, file_digest(path))
    every = sorted(set().union(*ids.values()))
    return [
        foreign_row(
            study=source.study,
            attempt=f"{path.stem}/{name}",
            task=name,
            arm=path.stem,
            sample=1,
            bundle_sha256=source.digest,
            **_run_verdict(name, ids, reasons),
        )
        for name in every
    ]


def report_tree_rows(folder: Path) -> list[Row]:
    """All rows of the `report.json` files of a run's log folder, or of one model or instance in it."""
    files = sorted(found for depth in ("", "*/", "*/*/") for found in folder.glob(f"{depth}report.json"))
    return [row for path in files for row in instance_report_rows(path)]


@dataclass(frozen=True)
class _Source:
    study: str
    digest: str


def _run_name(path: Path) -> str:
    """The name of a file; of one that every run calls `preds` or `report`, its folder's."""
    return path.absolute().parent.name if path.stem in ("preds", "all_preds", "report") else path.stem


def _keyed_predictions(predictions: Field) -> Iterator[Field]:
    for name, prediction in predictions.entries():
        stated = prediction.at("instance_id")
        if stated.word() != name:
            stated.refuse(f"found {stated.value!r} under the key {name!r}")
        yield prediction


def _prediction_row(prediction: Field, source: _Source) -> Row:
    task, arm = prediction.at("instance_id").word(), prediction.at("model_name_or_path").word()
    if "model_patch" not in prediction.members():
        prediction.at("model_patch").refuse("missing: a prediction has a patch, or null")
    known = {"study": source.study, "task": task, "arm": arm, "model": arm, "sample": 1}
    patch = patch_columns(prediction.at("model_patch").text())
    return foreign_row(**known, **patch, attempt=task, bundle_sha256=source.digest)


def _report_row(task: str, report: Field, arm: str | None, source: _Source) -> Row:
    status = report.at("tests_status").object()
    f2p, p2p = _tests(status.at("FAIL_TO_PASS")), _tests(status.at("PASS_TO_PASS"))
    resolved = _required_flag(report.at("resolved"))
    if resolved and (f2p is None or p2p is None):
        report.at("resolved").refuse("true without the `tests_status` that it follows from")
    if f2p and p2p and resolved != (f2p.whole and p2p.whole):
        report.at("resolved").refuse(f"{str(resolved).lower()}, which does not follow from `tests_status`")
    return foreign_row(
        study=source.study,
        attempt=f"{arm}/{task}" if arm else task,
        task=task,
        arm=arm,
        sample=1,
        bundle_sha256=source.digest,
        f2p_passed=f2p and f2p.passed,
        f2p_total=f2p and f2p.total,
        f2p_fraction=f2p and f2p.fraction,
        p2p_passed=p2p and p2p.passed,
        p2p_total=p2p and p2p.total,
        **_report_verdict(report, resolved),
    )


@dataclass(frozen=True)
class _Tests:
    passed: int
    total: int

    @property
    def whole(self) -> bool:
        return self.passed == self.total

    @property
    def fraction(self) -> float:
        return self.passed / self.total if self.total else 0.0


def _tests(counted: Field) -> _Tests | None:
    if counted.value is None:
        return None
    passed, failed = counted.at("success").distinct_words(), counted.at("failure").distinct_words()
    both = sorted(set(passed) & set(failed))
    if both:
        counted.refuse(f"{both[0]!r} is in `success` and in `failure`")
    return _Tests(len(passed), len(passed) + len(failed))


def _required_flag(field: Field) -> bool:
    found = field.flag()
    return found if found is not None else bool(field.refuse("expected true or false, found nothing"))


def _report_verdict(report: Field, resolved: bool) -> Row:
    if _required_flag(report.at("patch_is_None")):
        return _judged(Verdict.UNRESOLVED, "empty_patch", PatchState.EMPTY)
    if resolved:
        return _judged(Verdict.RESOLVED, None, PatchState.PRESENT)
    if report.at("infra_failure").flag():
        cause = report.at("infra_failure_reason").text() or "unknown"
        return _judged(Verdict.INVALID, f"infra_failure: {cause}", PatchState.PRESENT)
    if not _required_flag(report.at("patch_successfully_applied")):
        return _judged(Verdict.INVALID, "no_test_output", PatchState.PRESENT)
    return _judged(Verdict.UNRESOLVED, "tests_failed", PatchState.PRESENT)


def _judged(verdict: Verdict, reason: str | None, patch: PatchState | None) -> Row:
    return {
        "verdict": verdict.value,
        "reason": reason,
        "resolved": resolved_of(verdict),
        "patch": None if patch is None else patch.value,
    }


def _instance_lists(report: Field) -> dict[str, set[str]]:
    """Every list of the report; counts must be those of the lists, and what excludes each other may not overlap."""
    ids = {name: set(report.at(name).distinct_words()) for name in _LISTS}
    for name, found in ids.items():
        stated = report.at(name.removesuffix("_ids") + "_instances")
        if name != "incomplete_ids" and stated.count() != len(found):
            stated.refuse(f"{stated.value!r}, but `{name}` has {len(found)}")
    for one, other in _OVERLAPPING:
        both = sorted(ids[one] & ids[other])
        if both:
            report.at(one).refuse(f"{both[0]!r} is in `{other}` too")
    return ids


def _run_verdict(name: str, ids: dict[str, set[str]], reasons: dict[str, str]) -> Row:
    cause = f": {reasons[name]}" if name in reasons else ""
    if name in ids["incomplete_ids"]:
        return _judged(Verdict.NOT_RUN, "no_prediction", None)
    if name in ids["empty_patch_ids"]:
        return _judged(Verdict.UNRESOLVED, "empty_patch", PatchState.EMPTY)
    if name in ids["infra_failure_ids"]:
        return _judged(Verdict.INVALID, f"infra_failure{cause}", PatchState.PRESENT)
    if name in ids["error_ids"]:
        return _judged(Verdict.INVALID, f"evaluation_error{cause}", PatchState.PRESENT)
    if name in ids["resolved_ids"]:
        return _judged(Verdict.RESOLVED, None, PatchState.PRESENT)
    if name in ids["unresolved_ids"]:
        return _judged(Verdict.UNRESOLVED, f"tests_failed{cause}", PatchState.PRESENT)
    return {"reason": "not_in_dataset"}
