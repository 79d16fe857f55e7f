"""A live reader gets run-start files it names and a projected prefix through the current turn, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cells.artifacts import ContractError, Role
from cells.artifacts.access import LiveReader, ReaderContract, cut_prefix, read_sealed
from cells.artifacts.conditions import Condition
from cells.errors import BoundaryViolation, EvidenceError
from cells.evidence.digest import digest_bytes

TRACE = "live/trace.jsonl"
ROWS = [{"event": "session_start", "segment": 1, "secret": "x"}] + [
    {"event": "tool_call", "segment": 1, "turn": number // 2, "args_digest": f"d{number}", "secret": f"s{number}"}
    for number in range(6)
]
CONTENT = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
READER = ReaderContract(
    "loops", Role.DETECTOR, frozenset({"start/session.json"}), {TRACE: frozenset({"turn", "args_digest"})}
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("start", "live"):
        (tmp_path / folder).mkdir()
    (tmp_path / TRACE).write_bytes(CONTENT + b'{"turn": 3, "torn')
    (tmp_path / "start/session.json").write_bytes(b"{}")
    (tmp_path / "start/prompt.txt").write_bytes(b"task")
    return tmp_path


def test_the_prefix_ends_with_the_current_turn_and_a_torn_row_is_none(root: Path) -> None:
    reader = LiveReader(root, READER)
    assert [row.get("turn") for row in reader.prefix(TRACE, 1).rows] == [None, 0, 0, 1, 1]
    assert len(reader.prefix(TRACE, 99).rows) == 7


def test_only_named_fields_leave_the_reader(root: Path) -> None:
    rows = LiveReader(root, READER).prefix(TRACE, 2).rows
    assert {key for row in rows for key in row} == {"turn", "args_digest"}


def test_length_and_digest_are_of_exactly_the_prefix_bytes(root: Path) -> None:
    prefix = LiveReader(root, READER).prefix(TRACE, 0)
    assert CONTENT[: prefix.length].count(b"\n") == 3
    assert prefix.digest == digest_bytes(CONTENT[: prefix.length])


def test_fixed_setup_is_given_only_when_the_contract_names_it(root: Path) -> None:
    reader = LiveReader(root, READER)
    assert reader.read("start/session.json") == b"{}"
    with pytest.raises(BoundaryViolation, match="does not name it as fixed setup"):
        reader.read("start/prompt.txt")


def test_context_reads_the_prompt_without_naming_it(root: Path) -> None:
    assert LiveReader(root, ReaderContract("mode", Role.CONTEXT)).read("start/prompt.txt") == b"task"


@pytest.mark.parametrize(
    "name",
    [
        "live/adaptive_control_ledger.jsonl",
        "live/adaptive_debug.jsonl",
        "live/llm_hurdle_detector.jsonl",
        "live/transcript.log",
    ],
)
def test_controller_output_and_transcripts_are_no_detector_input(root: Path, name: str) -> None:
    greedy = ReaderContract("greedy", Role.DETECTOR, fields={name: frozenset({"turn"})})
    with pytest.raises(BoundaryViolation, match="asked by detector"):
        LiveReader(root, greedy).prefix(name, 0)


def test_the_refusal_names_file_role_readiness_and_who_may(root: Path) -> None:
    with pytest.raises(BoundaryViolation) as caught:
        LiveReader(root, READER).read("post/verdict.txt")
    assert "artifact 'post/verdict.txt' asked by detector at live-prefix; ready post-run, for audit, scoring" in str(
        caught.value
    )


def test_a_live_file_is_not_read_whole_and_a_start_file_has_no_prefix(root: Path) -> None:
    reader = LiveReader(root, READER)
    with pytest.raises(BoundaryViolation):
        reader.read(TRACE)
    with pytest.raises(BoundaryViolation):
        reader.prefix("start/session.json", 0)


def test_a_turn_that_goes_backwards_is_altered_evidence() -> None:
    lines = b'{"event": "turn", "turn": 1}\n{"event": "turn", "turn": 0}\n'
    with pytest.raises(EvidenceError, match="completed turns went from"):
        cut_prefix(lines, 5)


def test_a_late_result_of_an_earlier_turn_is_not_moved_into_its_prefix() -> None:
    lines = b'{"event":"turn","turn":0}\n{"event":"turn","turn":1}\n{"event":"tool_call","turn":0}\n'
    assert len(cut_prefix(lines, 0).rows) == 1
    assert len(cut_prefix(lines, 1).rows) == 3


def test_turns_start_again_in_a_new_segment() -> None:
    lines = b'{"segment":1,"turn":4}\n{"segment":2}\n{"segment":2,"turn":0}\n{"segment":2,"turn":1}\n'
    assert len(cut_prefix(lines, 9, segment=1).rows) == 1
    assert len(cut_prefix(lines, 0, segment=2).rows) == 3


def test_a_study_narrows_fields_and_never_widens_them() -> None:
    assert READER.narrowed(fields={TRACE: {"turn"}}).fields[TRACE] == {"turn"}
    with pytest.raises(ContractError, match=r"never widen; found in addition live/trace.jsonl: result"):
        READER.narrowed(fields={TRACE: {"turn", "result"}})
    with pytest.raises(ContractError, match=r"start/prompt.txt"):
        READER.narrowed(fixed_setup={"start/session.json", "start/prompt.txt"})


def test_a_post_run_role_cannot_be_a_live_reader() -> None:
    with pytest.raises(ContractError, match="a live reader has role"):
        ReaderContract("late", Role.SCORING)


def test_a_conditional_file_needs_the_purpose_that_its_row_states(root: Path) -> None:
    with pytest.raises(BoundaryViolation, match=r"Condition.GROUPING_ONLY.*found none"):
        read_sealed(root, "start/prompt.txt", Role.SCORING)
    with pytest.raises(BoundaryViolation, match="found completion"):
        read_sealed(root, "start/prompt.txt", Role.SCORING, Condition.COMPLETION)
    assert read_sealed(root, "start/prompt.txt", Role.SCORING, Condition.GROUPING_ONLY) == b"task"


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "fifo"])
def test_a_planted_link_or_pipe_is_never_read(root: Path, kind: str) -> None:
    import os

    target = root / TRACE
    target.unlink()
    if kind == "symlink":
        target.symlink_to("/etc/hostname")
    elif kind == "hardlink":
        os.link(root / "start/prompt.txt", target)
    else:
        os.mkfifo(target)
    with pytest.raises(EvidenceError):
        LiveReader(root, READER).prefix(TRACE, 0)
