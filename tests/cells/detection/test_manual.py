"""The manual's page on detectors names every detector, setting and fact there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from cells.detection.registry import DETECTORS

PAGE = (Path(__file__).parents[3] / "docs/detectors.md").read_text()


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_the_row_of_a_detector_names_its_settings_defaults_and_facts(name: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    for setting in fields(DETECTORS[name]):
        assert f"`{setting.name}`" in row
        if not isinstance(setting.default, str):
            assert f"`{setting.name}` ({setting.default})" in row
    assert all(f"`{fact}`" in row for fact in DETECTORS[name].facts)
