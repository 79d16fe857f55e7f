"""The three live records of detection: what the controller did, how a decision came about, what a model was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cells.artifacts import Writer
from cells.artifacts.decision_rows import (
    DEBUG,
    LEDGER,
    MODEL_CALLS,
    AskedInput,
    ControllerRow,
    Decided,
    DecisionRow,
    ExplainedRow,
    ModelAnswer,
    ModelCallRow,
    NoteAction,
    PrefixMark,
    StopAction,
)
from cells.attempt import LiveAttempt
from cells.detection.registry import code_digest
from cells.evidence.digest import digest_bytes
from cells.recording.loose_json import loose_bytes
from launchers.detectors.messages import REPLY_CAP, Answer, Ask
from launchers.gateway.decisions import ModelReply

_WRITERS = {LEDGER: Writer.CONTROLLER, DEBUG: Writer.CONTROLLER, MODEL_CALLS: Writer.DETECTOR}


@dataclass(frozen=True)
class Moment:
    """The moment of a decision: turn N is complete, request N+1 has arrived and is not forwarded yet."""

    turn: int
    segment: int
    length: int
    """Bytes of live/trace.jsonl."""
    digest: str
    t_mono_s: float


@dataclass
class DecisionRecords:
    """Appends to the three files; a decision that acts is durable before the request goes on."""

    attempt: LiveAttempt
    _seq: dict[str, int] = field(default_factory=dict)

    def decided(
        self, moment: Moment, detector: str, decision: Decided, why: str, action: NoteAction | StopAction | None
    ) -> None:
        """The controller acted (`action`) or did not (None), and why."""
        row = ControllerRow(
            **self._head(LEDGER, moment, detector),
            decision=decision,
            applied=action is not None,
            why=why,
            action=action,
        )
        self._append(LEDGER, row, sync=action is not None)

    def explained(self, moment: Moment, answer: Answer, fields: frozenset[str], took_s: float) -> None:
        """How the live prefix led to the decision."""
        row = ExplainedRow(
            **self._head(DEBUG, moment, answer.detector),
            decision=answer.decision,
            evidence=tuple(answer.evidence),
            facts=answer.facts,
            fields=tuple(sorted(fields)),
            code=code_digest(),
            took_s=round(took_s, 6),
        )
        self._append(DEBUG, row)

    def asked_model(self, moment: Moment, detector: str, ask: Ask, reply: ModelReply, answer: Answer | None) -> None:
        """A model-backed call: its input in summary, its reply as the child got it, its result."""
        messages = [one.model_dump() for one in ask.messages]
        chars = sum(len(one.content) for one in ask.messages)
        told = asdict(reply) | {"text": None if reply.text is None else _writable(reply.text)}
        row = ModelCallRow(
            **self._head(MODEL_CALLS, moment, detector),
            input=AskedInput(messages=len(messages), chars=chars, sha256=digest_bytes(loose_bytes(messages))),
            reply=ModelAnswer(**told),
            result=None if answer is None else answer.decision,
        )
        self._append(MODEL_CALLS, row)

    def _head(self, name: str, moment: Moment, detector: str) -> Mapping[str, Any]:
        seq = self._seq[name] = self._seq.get(name, 0) + 1
        return {
            "seq": seq,
            "t_mono_s": round(moment.t_mono_s, 6),
            "segment": moment.segment,
            "turn": moment.turn,
            "detector": detector,
            "prefix": PrefixMark(length=moment.length, digest=moment.digest),
        }

    def _append(self, name: str, row: DecisionRow, *, sync: bool = False) -> None:
        self.attempt.append(name, loose_bytes(row.model_dump(mode="json")) + b"\n", _WRITERS[name], sync=sync)


def _writable(text: str) -> str:
    """As the child gets it: capped, and with what is no Unicode text replaced."""
    return text[:REPLY_CAP].encode("utf-8", "replace").decode()
