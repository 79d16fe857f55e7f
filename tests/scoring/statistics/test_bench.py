"""The calibration and the aggregation bench in their short forms: the same code as the long ones, less data."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[3] / "infra" / "bench"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def calibration() -> ModuleType:
    return script("calibration")


def test_a_short_calibration_finds_what_the_long_one_found(calibration: ModuleType) -> None:
    scenarios = [one for one in calibration.SCENARIOS if one.name in ("A/A", "effect varies")]
    crowded = calibration.QUICK[1]
    cells = [calibration.measure((crowded, 1, scenario, 600)) for scenario in scenarios]
    for cell in cells:
        assert cell.coverage["wild"] > cell.coverage["percentile"]
        assert 91 <= cell.coverage["wild"] <= 99 and cell.coverage["percentile"] < 94
    assert cells[0].false_positives is not None and cells[0].false_positives <= 7
    assert cells[1].false_positives is None


def test_the_coverage_document_has_a_choice_for_each_regime_measured(calibration: ModuleType) -> None:
    tasks = [(calibration.QUICK[0], 1, scenario, 60) for scenario in calibration.SCENARIOS]
    cells = [calibration.measure(task) for task in tasks]
    document = calibration.coverage_document(cells, 60)
    assert [entry["level"] for entry in document["regimes"]] == ["common", "uncommon", "rare"]
    assert len({entry["auto"] for entry in document["regimes"]}) == 1
    text = calibration.page(cells, document)
    assert text.count("\n| 30 tasks, no clusters | 1 |") == len(cells)
    json.dumps(document)


def test_the_manuals_page_and_the_carried_figures_are_of_one_calibration(calibration: ModuleType) -> None:
    document = json.loads(calibration.COVERAGE_FILE.read_text())
    shown = calibration.page([], document).split("## Every simulated cell")[0]
    assert calibration.PAGE.read_text().startswith(shown)
    assert document["studies"] == 10_000


def test_a_small_aggregation_agrees_with_the_obvious_pandas_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregate = script("aggregate")
    cells = aggregate.write_cells(tmp_path, tasks=60, samples=2)
    assert cells == 60 * 2 * 20
    mine = {(one["treatment"], one["outcome"]): one for one in aggregate.ours(tmp_path)}
    monkeypatch.setattr(aggregate, "RESAMPLES", 20)
    theirs = aggregate.with_pandas(tmp_path)
    assert len(mine) == len(theirs) == 38
    for one in theirs:
        assert one["difference"] == pytest.approx(mine[one["treatment"], one["outcome"]]["difference"], abs=1e-12)
