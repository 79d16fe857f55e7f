"""What the controller and the detector child say to each other, checked where it enters.

A child that says anything else than these is dead to us: `ChildGone` with the reason, and the harness goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from cells.artifacts.decision_rows import Pointer
from cells.artifacts.live_readers import own_settings
from cells.detection.judgement import ENVELOPE, TEXT_CAP, Detector
from cells.detection.schedule import ArmDetector

LINE_CAP = 256 * 1024
"""Bytes of one answer."""
REPLY_CAP = 2000
"""Characters of a model's reply that the child gets, and that the record keeps."""


class ChildGone(Exception):
    """The child died, was late, or said what it may not say; nothing more is asked of it."""


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class AskMessage(_Said):
    """A message to a model."""

    role: Literal["system", "user"]
    content: Annotated[str, Field(max_length=LINE_CAP)]


class Ask(_Said):
    """A question to a model."""

    messages: Annotated[list[AskMessage], Field(min_length=1, max_length=4)]


class Answer(_Said):
    """The decision for one turn."""

    v: Literal[1]
    turn: int
    detector: str
    decision: Literal["none", "note", "stop"]
    evidence: Annotated[list[Pointer], Field(max_length=1000)]
    facts: dict[str, StrictInt | Annotated[StrictStr, Field(max_length=TEXT_CAP)]]
    ask: Ask | None = None


def read_answer(line: bytes, detector: Detector, turn: int, action: str) -> Answer:
    """The answer in a line; `ChildGone` when it is none, not to this question, or tells what the child cannot know."""
    try:
        answer = Answer.model_validate_json(line)
    except ValidationError as error:
        raise ChildGone(f"not an answer: {str(error.errors(include_input=False)[:1])[:200]}") from error
    if (answer.detector, answer.turn) != (detector.name, turn) or answer.decision not in ("none", action):
        raise ChildGone(
            f"answered {answer.detector} {answer.turn} {answer.decision}; asked {detector.name} {turn} {action}"
        )
    named = detector.fields | ENVELOPE
    if any(one.turn > turn or one.field not in named for one in answer.evidence):
        raise ChildGone(f"evidence from a later turn than {turn}, or from a field that {detector.name} does not name")
    if not answer.facts.keys() <= detector.facts or (answer.ask is not None and not detector.asks):
        raise ChildGone(f"facts or a question that {detector.name} does not have")
    return answer


def question(detector: str, turn: int, rows: list[dict[str, Any]], reply: str | None = None) -> dict[str, Any]:
    """One line to the child: `rows` are those that it has not got yet."""
    line: dict[str, Any] = {"v": 1, "turn": turn, "detector": detector, "rows": rows}
    return line if reply is None else {**line, "reply": reply[:REPLY_CAP]}


def introduction(arm: Mapping[str, ArmDetector]) -> dict[str, Any]:
    """The first line: which detectors, with which action and settings."""
    told = {name: {"action": one.action, "settings": own_settings(one.settings)} for name, one in arm.items()}
    return {"v": 1, "detectors": told}
