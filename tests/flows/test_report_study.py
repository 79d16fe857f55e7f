"""Tables, comparisons and the report of a study on disk, as a person and a script meet them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cells.design.matrix import PlannedCell
from cells.design.study_file import load_study
from cells.evidence.lifecycle.marks import withdraw
from flows.cli.main import main
from flows.freezing import FrozenStudy, accept_revision, open_study
from flows.planning import draft_plan
from flows.report import write_report
from flows.status import read_state
from flows.tables import row_of_bundle, row_of_ledger, study_rows
from scoring.columns import NAMES
from tests.flows.played_study import EXAMPLE, by_arm, frozen_example, played, publish_cell


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> FrozenStudy:
    """A finished study; tests only read it, but for its report."""
    return played(tmp_path_factory.mktemp("made") / "studies")


@pytest.fixture
def studies(made: FrozenStudy, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_STUDIES", str(made.store.root.path))
    return made.store.root.path


@pytest.fixture
def still_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FrozenStudy:
    """A study with three results and the rest to run."""
    monkeypatch.setenv("ASSAY_STUDIES", str(tmp_path / "studies"))
    study = frozen_example(tmp_path / "studies")
    cells = [cell for cell in study.plan.cells if not cell.is_control][:3]
    with study.store.writing():
        for cell in cells:
            publish_cell(study, cell, by_arm(cell))
    return study


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    """The JSON document of a command, or its message when it is refused."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err if code else json.loads(captured.out)


def kinds(study: FrozenStudy) -> list[str]:
    return [row.kind for row in study.store.ledger.rows()]


class TestTable:
    def test_one_row_an_accepted_attempt_controls_too(
        self, studies: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        out = tmp_path / "cells.parquet"
        document = run(capsys, "table", str(studies / "quickstart"), "--out", str(out))
        table = pq.read_table(out)
        assert (document["rows"], document["repeated"], document["partitioned"]) == (36, 0, False)
        assert tuple(table.schema.names) == NAMES
        assert set(table["arm"].to_pylist()) == {"control", "treatment", "oracle", "nop"}
        assert table["resolved"].null_count == 0

    def test_a_root_and_an_earlier_table_give_each_bundle_once(
        self, studies: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        first, folder, again = tmp_path / "first.parquet", tmp_path / "all", tmp_path / "again.parquet"
        run(capsys, "table", str(studies), "--out", str(first))
        document = run(capsys, "table", str(studies), str(first), "--out", str(folder))
        assert (document["rows"], document["repeated"], document["partitioned"]) == (36, 36, True)
        assert (folder / "study=quickstart" / "arm=oracle").is_dir()
        run(capsys, "table", str(folder), "--out", str(again))
        order = [("arm", "ascending"), ("cell_id", "ascending")]
        assert pq.read_table(again).sort_by(order) == pq.read_table(first).sort_by(order)

    def test_what_is_no_table_is_refused(
        self, studies: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        (tmp_path / "notes.txt").write_text("x")
        (tmp_path / "broken.parquet").write_text("x")
        for name, words in (
            ("notes.txt", "none of them"),
            ("gone", "nothing there"),
            ("broken.parquet", "cannot be read"),
        ):
            assert words in run(capsys, "table", str(tmp_path / name), "--out", str(tmp_path / "o.parquet"), code=2)
        assert not (tmp_path / "o.parquet").exists()

    def test_verdicts_of_an_open_study_are_null_unless_unblinded_and_that_is_recorded(
        self, still_open: FrozenStudy, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        out = tmp_path / "cells.parquet"
        document = run(capsys, "table", str(still_open.store.path), "--out", str(out))
        assert document["studies"][0]["blind"] is True
        for name in ("verdict", "reason", "resolved", "f2p_fraction", "p2p_passed"):
            assert pq.read_table(out)[name].null_count == 3
        assert "unblinded" not in kinds(still_open)
        run(capsys, "table", str(still_open.store.path), "--out", str(out), "--unblind")
        assert pq.read_table(out)["resolved"].null_count == 0
        assert kinds(still_open).count("unblinded") == 1


class TestRows:
    def test_the_ledger_and_the_bundle_say_the_same(self, made: FrozenStudy) -> None:
        state = read_state(made)
        assert study_rows(state, row_of_ledger).rows == study_rows(state, row_of_bundle).rows

    def test_controls_never_enter_a_comparison(self, made: FrozenStudy) -> None:
        assert {row["arm"] for row in study_rows(read_state(made)).compared} == {"control", "treatment"}

    def test_a_withdrawn_result_is_dropped_counted_and_missing(self, made: FrozenStudy, tmp_path: Path) -> None:
        shutil.copytree(made.store.root.path, tmp_path / "studies")
        study = open_study(tmp_path / "studies", "quickstart")
        state = read_state(study)
        cell = next(cell for cell in state.cells if not cell.is_control)
        unit = state.unit(cell)
        assert unit is not None
        withdraw(study.store, unit.path, "the machine was misconfigured")
        found = study_rows(read_state(study))
        assert list(found.dropped) == [cell.spec.directory]
        assert "misconfigured" in found.dropped[cell.spec.directory]
        assert [row["cell_id"] for row in found.open_cells] == [cell.spec.cell_id]
        assert len(found.rows) == 35


class TestCompare:
    def test_the_plan_s_comparisons_without_a_question(self, studies: Path, capsys: pytest.CaptureFixture[str]) -> None:
        resolved, fraction = run(capsys, "compare", "quickstart")["comparisons"]
        assert (resolved["outcome"], fraction["outcome"]) == ("resolved", "f2p_fraction")
        assert resolved["planned"] and resolved["n_pairs"] == 6 and resolved["p_holm"] is not None
        assert resolved["mean_treatment"] == 1.0

    def test_one_planned_comparison_keeps_the_family_of_holm(
        self, studies: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        both = run(capsys, "compare", "quickstart")["comparisons"]
        (one,) = run(capsys, "compare", "quickstart", "--control", "control", "--treatment", "treatment")["comparisons"]
        assert one == both[0]

    def test_another_question_is_exploratory(self, studies: Path, capsys: pytest.CaptureFixture[str]) -> None:
        question = ("--control", "treatment", "--treatment", "control", "--outcome", "cost", "--details")
        (found,) = run(capsys, "compare", "quickstart", *question)["comparisons"]
        assert (found["planned"], found["p_holm"], found["outcome"]) == (False, None, "cost")
        assert found["n_pairs"] == 6
        assert found["details"]["tasks"] == 6

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (
                ("quickstart", "--control", "control", "--treatment", "nop"),
                "arms that can be compared: control, treatment",
            ),
            (("quickstart", "--control", "control"), "a comparison needs"),
            (("quickstart", "--outcome", "resolved"), "--outcome goes with"),
            (("quickstart", "--control", "control", "--treatment", "treatment", "--outcome", "beauty"), "'beauty'"),
            (("quickstart", "--seed", "3"), "--seed goes with --from"),
            ((), "name a STUDY or --from FILE"),
            (("--from", "outcomes.tsv"), "--mapping MAP.toml"),
        ],
    )
    def test_what_cannot_be_answered_is_refused_with_what_to_do(
        self, studies: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
    ) -> None:
        assert words in run(capsys, "compare", *arguments, code=2)

    def test_an_open_study_is_refused_unless_unblinded_and_that_is_recorded(
        self, still_open: FrozenStudy, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert "cells are open" in run(capsys, "compare", "quickstart", code=2)
        assert "unblinded" not in kinds(still_open)
        found = run(capsys, "compare", "quickstart", "--unblind")["comparisons"]
        assert found[0]["n_missing"] > 0
        assert kinds(still_open).count("unblinded") == 1

    def test_a_file_is_compared_by_its_mapping(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        (tmp_path / "o.tsv").write_text("id\ta\tb\n1\t0\t1\n2\t0\t1\n3\t1\t1\n")
        (tmp_path / "m.toml").write_text('task = "id"\n[outcomes.resolved]\ncontrol = "a"\ntreatment = "b"\n')
        arguments = ("--from", str(tmp_path / "o.tsv"), "--mapping", str(tmp_path / "m.toml"))
        (found,) = run(capsys, "compare", *arguments)["comparisons"]
        assert (found["n_pairs"], found["both"], found["treatment_only"]) == (3, 1, 2)


class TestReport:
    def test_the_same_evidence_gives_the_same_bytes(self, studies: Path) -> None:
        first = write_report(studies, "quickstart").read_bytes()
        assert write_report(studies, "quickstart").read_bytes() == first
        assert str(studies).encode() not in first

    def test_a_finished_study_has_its_claim_and_its_provenance(
        self, studies: Path, made: FrozenStudy, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        out, markdown = tmp_path / "r.html", tmp_path / "r.md"
        document = run(capsys, "report", "quickstart", "--output", str(out), "--markdown", str(markdown))
        assert (document["blind"], document["bytes"]) == (False, out.stat().st_size)
        for text in (out.read_text(), markdown.read_text()):
            assert made.plan.sha256 in text
            assert str(made.store.ledger.head) in text
            assert "over 6 paired tasks in 4 repositories" in text
            assert "12 of 12 ended as they must" in text

    def test_an_open_study_shows_no_verdict(self, still_open: FrozenStudy, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(capsys, "report", "quickstart")["blind"] is True
        text = (still_open.store.path / "report.html").read_text()
        assert "Verdicts are hidden" in text
        assert "tests_passed" not in text and "tests_failed" not in text
        assert run(capsys, "report", "quickstart", "--unblind")["blind"] is False
        text = (still_open.store.path / "report.html").read_text()
        assert "Verdicts were looked at before the study was closed: by assay report --unblind" in text

    def test_an_analysis_changed_after_the_first_verdict_is_called_out(self, still_open: FrozenStudy) -> None:
        draft = draft_plan(load_study(EXAMPLE))
        changed = replace(draft, plan=replace(draft.plan, design={**draft.plan.design, "comparisons": []}))
        accept_revision(still_open, changed, verdicts_seen=False)
        text = write_report(still_open.store.root.path, "quickstart").read_text()
        assert "The planned analysis was changed after the first verdict (revision 2): 3 cells already had" in text

    def test_losses_and_cells_without_a_result_are_told(self, tmp_path: Path) -> None:
        study = played(tmp_path / "studies", lambda cell: "not_run" if _is(cell, "control", 2) else _few(cell))
        text = write_report(tmp_path / "studies", "quickstart").read_text()
        assert "engine_lost 1" in text
        assert study.plan.study in text


def _is(cell: PlannedCell, arm: str, sample: int) -> bool:
    return (cell.spec.task, cell.spec.arm.name, cell.spec.sample) == ("slug-dashes", arm, sample)


def _few(cell: PlannedCell) -> str:
    return by_arm(cell) if cell.spec.task == "slug-dashes" else "open"
