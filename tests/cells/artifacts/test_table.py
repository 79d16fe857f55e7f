"""The table says what the saved-files contract says, and cannot say what it forbids."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from cells.artifacts import CONTRACT, Contract, ContractError, Grant, Readiness, Role, Row, Scope, UndeclaredArtifact
from cells.artifacts.build_rows import LIVE, POST, START, ours
from cells.artifacts.conditions import Condition
from cells.artifacts.model import LIVE_ROLES, YES, Writer, may, when
from cells.artifacts.table import meet

READING = list(csv.DictReader(Path(__file__).with_name("reading.csv").read_text().splitlines()))
SEED_ROWS = [row for row in CONTRACT if row.origin == "seed" and row.seed_row is not None]


def test_all_49_rows_of_the_seed_stand_in_the_table_in_their_77_path_forms() -> None:
    assert {row.seed_row for row in SEED_ROWS} == set(range(1, 50))
    assert len(SEED_ROWS) == 77


@pytest.mark.parametrize("line", READING, ids=lambda line: f"{line['row']}-{line['pattern']}")
def test_a_seed_row_grants_exactly_what_the_seed_grants(line: dict[str, str]) -> None:
    (row,) = [row for row in SEED_ROWS if row.pattern == line["pattern"]]
    assert row.seed_row == int(line["row"])
    assert row.scope == line["scope"]
    assert {ready.value for ready in row.ready} == set(line["ready"].split(";"))
    for role in (Role.CONTEXT, Role.DETECTOR, Role.AUDIT, Role.SCORING):
        assert row.permissions[role].grant == line[role.value], role


def test_audit_may_read_everything_and_a_detector_nothing_without_a_condition() -> None:
    assert {row.permissions[Role.AUDIT].grant for row in CONTRACT} == {Grant.YES}
    assert Grant.YES not in {row.permissions[Role.DETECTOR].grant for row in CONTRACT}


@pytest.mark.parametrize("role", LIVE_ROLES)
@pytest.mark.parametrize("permission", [YES, when(Condition.PREFIX_ONLY)])
def test_a_post_run_row_that_a_live_role_may_read_cannot_be_made(role: Role, permission: object) -> None:
    with pytest.raises(ContractError, match="ready post-run only"):
        ours("post/new.json", POST, may(**{role.value: permission}), Writer.SCORER)  # type: ignore[arg-type]


def test_our_form_of_a_seed_file_keeps_the_seed_permissions() -> None:
    for row in CONTRACT:
        if row.scope is Scope.ATTEMPT and row.seed_row is not None:
            seed = next(one for one in SEED_ROWS if one.seed_row == row.seed_row)
            for role in (Role.CONTEXT, Role.DETECTOR, Role.CONTROLLER, Role.AUDIT, Role.SCORING):
                assert row.permissions[role] == seed.permissions[role], (row.pattern, role)
            assert row.ready <= seed.ready


def test_the_same_base_name_is_two_artifacts_in_two_places() -> None:
    assert CONTRACT.row_for("metrics.json", Scope.CELL).seed_row == 22
    assert CONTRACT.row_for("metrics.json", Scope.BRANCH).seed_row == 39
    assert CONTRACT.row_for("transcript.log", Scope.SESSION).seed_row == 8
    assert CONTRACT.row_for("transcript.log", Scope.BRANCH).seed_row == 40


def test_the_most_specific_pattern_wins() -> None:
    assert CONTRACT.row_for("post/score/preds.json").seed_row == 46
    assert CONTRACT.row_for("post/score/parse-1.json").seed_row == 49
    assert CONTRACT.row_for("post/a.unfiltered.patch").pattern == "post/<task>.unfiltered.patch"
    assert CONTRACT.row_for("tasks/t/sealed/tests/a.py", Scope.STUDY).permissions[Role.SCORING] == YES


def test_no_file_has_two_equally_specific_rows_that_disagree() -> None:
    samples = [
        row.matcher.tail.replace("<", "").replace(">", "").replace("*", "x").replace("NNNN", "0001") for row in CONTRACT
    ]
    for row, name in zip(CONTRACT, samples, strict=True):
        best = [
            one
            for one in CONTRACT
            if one.scope is row.scope and one.matcher.matches(name) and one.matcher.weight == row.matcher.weight
        ]
        assert len({tuple(sorted((role, one.permissions[role].grant) for role in Role)) for one in best}) <= 1, name


@pytest.mark.parametrize("name", ["post/extra.bin", "live/new.jsonl", "notes.txt", "start/spec.json.bak"])
def test_a_file_without_a_row_is_undeclared(name: str) -> None:
    with pytest.raises(UndeclaredArtifact, match="no row of the contract"):
        CONTRACT.row_for(name)


@pytest.mark.parametrize(
    "name", ["post/../verdict.txt", "/etc/passwd", "live//wire.jsonl", "", "live/wire/a\nb", "live/wire/\u00e9"]
)
def test_an_unsafe_name_is_refused_before_it_is_looked_up(name: str) -> None:
    with pytest.raises(Exception, match="not a safe name"):
        CONTRACT.row_for(name)


def test_a_harness_file_keeps_the_readers_of_its_own_pattern_in_any_folder() -> None:
    metrics = CONTRACT.row_for("live/harness/deep/.yuj_t/metrics.json")
    assert metrics.seed_row == 22
    assert metrics.permissions[Role.SCORING].conditions == {Condition.GROUPING_ONLY}
    trace = CONTRACT.row_for("live/harness/.trace.jsonl")
    assert all(trace.permissions[role].grant is Grant.NO for role in LIVE_ROLES)


def test_a_harness_file_that_measurements_share_is_not_taken_for_an_assistant_file() -> None:
    assert not CONTRACT.row_for("live/harness/run/session.json").assistant_only
    assert not CONTRACT.row_for("live/harness/run/llm_hurdle_detector.jsonl").assistant_only
    assert CONTRACT.row_for("live/harness/s1/correction.json").assistant_only


@pytest.mark.parametrize(
    "name",
    [
        "attachments.json",
        "correction.json",
        "clarification_answer.json",
        "approval_request.json",
        "review_target.patch",
        "github_context.json",
        "provider.toml",
    ],
)
def test_assistant_files_have_rows_that_say_so(name: str) -> None:
    assert CONTRACT.row_for(name, Scope.SESSION).assistant_only


def _trace() -> Row:
    return CONTRACT.row_for("live/trace.jsonl")


def test_a_study_may_narrow_a_row() -> None:
    permissions = dict(_trace().permissions) | {Role.DETECTOR: may()[Role.DETECTOR]}
    narrowed = meet([replace(_trace(), permissions=permissions)], CONTRACT)
    assert narrowed.row_for("live/trace.jsonl").permissions[Role.DETECTOR].grant is Grant.NO


def test_a_study_that_drops_a_condition_widens_and_is_refused() -> None:
    permissions = dict(_trace().permissions) | {Role.DETECTOR: when(Condition.PREFIX_ONLY)}
    with pytest.raises(ContractError, match=r"asks conditional \(prefix_only\) for detector.*never widen"):
        meet([replace(_trace(), permissions=permissions)], CONTRACT)


def test_a_study_cannot_make_a_file_ready_earlier() -> None:
    fingerprint = CONTRACT.row_for("live/fingerprint.txt")
    with pytest.raises(ContractError, match="cannot change when a file is ready"):
        meet([replace(fingerprint, ready=frozenset({Readiness.LIVE_PREFIX}))], CONTRACT)


def test_a_study_cannot_add_a_use() -> None:
    with pytest.raises(ContractError, match="a use that the contract does not have"):
        meet([ours("live/new.jsonl", LIVE, may(), Writer.GATEWAY)], CONTRACT)


def test_two_rows_for_one_pattern_cannot_stand_in_a_contract() -> None:
    row = ours("start/spec.json", START, may(), Writer.PLANNER)
    with pytest.raises(ContractError, match="two rows"):
        Contract((row, row))
