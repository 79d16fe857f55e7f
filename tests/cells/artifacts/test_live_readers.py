"""What detectors may read is theirs, narrowed by the study; wrong sections are refused at plan time."""

from __future__ import annotations

from typing import Any

import pytest

from cells.artifacts import CONTRACT, ContractError, Grant, Role
from cells.artifacts.live_readers import TRACE, arm_detectors, check_detectors, detector_reader
from cells.design.study_model import DetectorSection
from cells.detection.registry import DETECTORS, make
from cells.errors import UsageError

SECTION: dict[str, Any] = {"action": "note", "warmup": 0, "cadence": 1, "budget": 1, "settings": {}}


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_every_detector_reads_one_live_file_that_the_contract_lets_it_read(name: str) -> None:
    reader = detector_reader(make(name, {}))
    assert set(reader.fields) == {TRACE}
    assert reader.role is Role.DETECTOR
    assert CONTRACT.row_for(TRACE).permissions[Role.DETECTOR].grant is Grant.CONDITIONAL


def test_a_study_narrows_the_fields_of_a_detector() -> None:
    reader = detector_reader(make("no_write", {}), {"fields": ["tool_name"]})
    assert reader.fields[TRACE] == {"event", "turn", "segment", "tool_name"}


def test_a_study_that_gives_a_detector_more_fields_is_refused() -> None:
    section = SECTION | {"settings": {"fields": ["tool_name", "result_summary"]}}
    with pytest.raises(ContractError, match=r"never widen.*result_summary"):
        arm_detectors({"no_write": section})


def test_sections_of_a_study_file_become_canonical() -> None:
    section = DetectorSection(warmup=3, action="stop", settings={"turns": 5})
    content = check_detectors({"no_write": section})
    assert content == {"no_write": {"action": "stop", "warmup": 3, "cadence": 1, "budget": 1, "settings": {"turns": 5}}}
    assert arm_detectors(content)["no_write"].warmup == 3


@pytest.mark.parametrize("name", ["", "no_such"])
def test_an_unknown_detector_is_a_usage_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match="there are context_pressure, duplicate_call"):
        check_detectors({name: DetectorSection()})


def test_a_wrong_template_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="allowed are turns"):
        check_detectors({"no_write": DetectorSection(settings={"template": "{secret}"})})
