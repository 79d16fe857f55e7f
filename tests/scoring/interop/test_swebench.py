"""SWE-bench files: the fixtures of the run `r1` were written by `swebench` 5.0.2 (`make_run_report`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cells.errors import EvidenceError
from cells.evidence.digest import digest_bytes
from scoring.columns import NAMES
from scoring.interop.swebench import instance_report_rows, prediction_rows, report_tree_rows, run_report_rows
from scoring.interop.swebench_predictions import swebench_predictions
from tests.scoring.interop.refusals import FILES, changed, put, refused

SWEBENCH = FILES / "swebench"
RUN_REPORT = SWEBENCH / "with-guide.r1.json"
INSTANCE = SWEBENCH / "runs/r1/with-guide/acme__tool-2/report.json"


def verdicts(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {row["task"][-1]: (row["verdict"], row["resolved"], row["reason"]) for row in rows}


def test_a_run_report_gives_every_instance_its_verdict_and_no_failure_of_the_run_a_score() -> None:
    rows = run_report_rows(RUN_REPORT)
    assert verdicts(rows) == {
        "1": ("resolved", 1, None),
        "2": ("unresolved", 0, "tests_failed"),
        "3": ("invalid", None, "infra_failure: container_unavailable"),
        "4": ("unresolved", 0, "empty_patch"),
        "5": ("invalid", None, "evaluation_error"),
        "6": ("not_run", None, "no_prediction"),
    }
    assert all(tuple(row) == NAMES for row in rows)
    assert {row["study"] for row in rows} == {"with-guide.r1"}


def test_reports_of_instances_have_the_verdicts_of_the_run_report_and_the_counts_of_tests() -> None:
    rows = report_tree_rows(SWEBENCH / "runs/r1")
    by_run = verdicts(run_report_rows(RUN_REPORT))
    assert verdicts(rows) == {number: by_run[number] for number in "123"}
    two = rows[1]
    assert (two["study"], two["arm"], two["attempt"]) == ("r1", "with-guide", "with-guide/acme__tool-2")
    assert (two["f2p_passed"], two["f2p_total"], two["f2p_fraction"]) == (1, 2, 0.5)
    assert (two["p2p_passed"], two["p2p_total"]) == (1, 1)
    three = rows[2]
    assert three["f2p_total"] is None and three["f2p_fraction"] is None


def test_a_folder_of_one_model_or_one_instance_is_read_the_same() -> None:
    whole = report_tree_rows(SWEBENCH / "runs/r1")
    assert report_tree_rows(SWEBENCH / "runs/r1/with-guide") == whole
    assert report_tree_rows(INSTANCE.parent) == whole[1:2]


def test_a_report_outside_its_place_names_no_model(tmp_path: Path) -> None:
    (row,) = instance_report_rows(changed(INSTANCE, tmp_path / "one.json", lambda _: None))
    assert (row["study"], row["arm"], row["resolved"]) == ("one", None, 0)


def test_no_test_output_is_invalid_and_not_a_failure_of_the_candidate(tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["acme__tool-2"] |= {"patch_successfully_applied": False}
        del document["acme__tool-2"]["tests_status"]

    (row,) = instance_report_rows(changed(INSTANCE, tmp_path / "one.json", change))
    assert (row["verdict"], row["resolved"], row["reason"]) == ("invalid", None, "no_test_output")


def test_predictions_say_what_the_patch_is_and_nothing_about_a_verdict() -> None:
    rows = prediction_rows(SWEBENCH / "preds.jsonl")
    assert [row["patch"] for row in rows] == ["present"] * 3 + ["empty", "present"]
    assert rows[0]["patch_sha256"] == digest_bytes(b"diff --git a/x b/x\n")
    assert {row["study"] for row in rows} == {"swebench"}
    assert {(row["verdict"], row["resolved"], row["turns"], row["cost"]) for row in rows} == {(None,) * 4}


def test_predictions_keyed_by_instance_are_read_and_a_null_patch_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "night.json"
    prediction = {"instance_id": "a-1", "model_name_or_path": "m", "model_patch": None}
    path.write_text(json.dumps({"a-1": prediction}))
    (row,) = prediction_rows(path)
    assert (row["study"], row["task"], row["arm"], row["patch"], row["patch_bytes"]) == (
        "night",
        "a-1",
        "m",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("schema_version", value=3), "schema_version"),
        (put("schema_version", value=None), "schema_version"),
        (put("resolved_instances", value=-1), "resolved_instances"),
        (put("resolved_instances", value=2), "resolved_instances"),
        (put("resolved_instances", value=float("nan")), "resolved_instances"),
        (put("unresolved_instances", value=float("inf")), "unresolved_instances"),
        (put("resolved_ids", value=["acme__tool-1"] * 2), "resolved_ids"),
        (put("error_ids", value=["acme__tool-1"]), "resolved_ids"),
        (put("infra_failure_ids", value=["acme__tool-1"]), "infra_failure_ids"),
        (put("failure_reasons", value=[]), "failure_reasons"),
    ],
)
def test_a_run_report_of_another_version_or_against_itself_is_refused(tmp_path: Path, change: Any, field: str) -> None:
    refused(run_report_rows, changed(RUN_REPORT, tmp_path / "r.json", change), field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("acme__tool-2", "resolved", value=True), "resolved"),
        (put("acme__tool-2", "resolved", value=None), "resolved"),
        (put("acme__tool-2", "resolved", value=1), "resolved"),
        (put("acme__tool-2", "tests_status", "FAIL_TO_PASS", "success", value=["t::b"]), "FAIL_TO_PASS"),
        (put("acme__tool-2", "tests_status", "FAIL_TO_PASS", "success", value=["a", "a"]), "FAIL_TO_PASS.success"),
        (put("acme__tool-2", "tests_status", "PASS_TO_PASS", "failure", value=3), "PASS_TO_PASS.failure"),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(tmp_path: Path, change: Any, field: str) -> None:
    refused(instance_report_rows, changed(INSTANCE, tmp_path / "r.json", change), field)


def test_predictions_that_name_an_instance_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes((SWEBENCH / "preds.jsonl").read_bytes().splitlines(keepends=True)[0] * 2)
    refused(prediction_rows, path, "instance_id")


def test_half_a_line_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes((SWEBENCH / "preds.jsonl").read_bytes()[:-20])
    refused(prediction_rows, path, "line 5")


def bundle(root: Path, task: str, state: str, patch: bytes = b"", sample: int = 1) -> Path:
    """The files of an attempt that a prediction is made from."""
    files = {
        "start/spec.json": {"task": task, "sample": sample, "arm": {"name": "with-guide"}},
        "post/gate.json": {"patch": digest_bytes(patch), "patch_bytes": len(patch)},
        "post/score/score_result.json": {"patch": state},
    }
    for name, document in files.items():
        path = root / f"{task}-{sample}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    (root / f"{task}-{sample}/post" / f"{task}.patch").write_bytes(patch)
    return root / f"{task}-{sample}"


def test_our_attempts_as_predictions_are_read_back_with_the_digest_of_the_gate(tmp_path: Path) -> None:
    patch = "diff --git a/ü b/ü\n+\u2028\n".encode()
    bundles = [bundle(tmp_path, "a-1", "present", patch), bundle(tmp_path, "a-2", "empty")]
    bundles += [bundle(tmp_path, "a-3", "rejected", b"diff"), bundle(tmp_path, "a-4", "unappliable", b"diff")]
    bundles += [bundle(tmp_path, "a-1", "present", b"diff", sample=2)]
    files = swebench_predictions(bundles)
    assert list(files) == ["with-guide", "with-guide.sample-2"]
    path = tmp_path / "preds.jsonl"
    path.write_bytes(files["with-guide"])
    rows = prediction_rows(path)
    assert [(row["task"], row["patch"]) for row in rows] == [("a-1", "present"), ("a-2", "empty"), ("a-3", "empty")]
    assert (rows[0]["patch_sha256"], rows[0]["arm"]) == (digest_bytes(patch), "with-guide")


def test_a_patch_that_is_not_the_one_of_the_gate_makes_no_prediction(tmp_path: Path) -> None:
    root = bundle(tmp_path, "a-1", "present", b"diff")
    (root / "post/a-1.patch").write_bytes(b"another")
    with pytest.raises(EvidenceError, match=r"a-1\.patch"):
        swebench_predictions([root])


def test_a_patch_that_is_no_text_makes_no_prediction(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="UTF-8"):
        swebench_predictions([bundle(tmp_path, "a-1", "present", b"\xff")])


def test_two_attempts_of_one_cell_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="second attempt"):
        swebench_predictions([bundle(tmp_path, "a-1", "empty"), bundle(tmp_path, "a-1", "empty")])
