"""The three live records of detection: what the controller did, how a decision came about, what a model was asked.

Every row carries turn, byte length and digest of the prefix that the decision was made from, so that anybody can make
the prefix again and see that no later row was in it. Rows: `{v, seq, t_mono_s, segment, turn, detector, prefix:
{length, digest}, ...}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cells.artifacts import Writer
from cells.attempt import LiveAttempt
from cells.evidence.digest import digest_bytes
from cells.recording.loose_json import loose_bytes
from launchers.detectors.messages import REPLY_CAP, Answer, Ask

LEDGER = "live/adaptive_control_ledger.jsonl"
DEBUG = "live/adaptive_debug.jsonl"
MODEL_CALLS = "live/llm_hurdle_detector.jsonl"
RECORD_VERSION = 1


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

    def decided(self, moment: Moment, detector: str, decision: str, why: str, action: Mapping[str, Any] | None) -> None:
        """The controller acted (`action`) or did not (None), and why."""
        fields = {"decision": decision, "applied": action is not None, "why": why, "action": action}
        self._append(LEDGER, Writer.CONTROLLER, moment, detector, fields, sync=action is not None)

    def explained(self, moment: Moment, detector: str, fields: Mapping[str, Any]) -> None:
        """How the live prefix led to the decision."""
        self._append(DEBUG, Writer.CONTROLLER, moment, detector, fields)

    def asked_model(
        self, moment: Moment, detector: str, ask: Ask, reply: Mapping[str, Any], answer: Answer | None
    ) -> None:
        """A model-backed call: its input in summary, its reply as the child got it, its result."""
        messages = [one.model_dump() for one in ask.messages]
        content = "".join(one.content for one in ask.messages)
        fields = {
            "input": {
                "messages": len(messages),
                "chars": len(content),
                "sha256": digest_bytes(loose_bytes(messages)),
            },
            "reply": {**reply, "text": str(reply.get("text") or "")[:REPLY_CAP]},
            "result": None if answer is None else answer.decision,
            "role": "detector",
        }
        self._append(MODEL_CALLS, Writer.DETECTOR, moment, detector, fields)

    def _append(
        self, name: str, writer: Writer, moment: Moment, detector: str, fields: Mapping[str, Any], sync: bool = False
    ) -> None:
        seq = self._seq[name] = self._seq.get(name, 0) + 1
        row = {
            "v": RECORD_VERSION,
            "seq": seq,
            "t_mono_s": round(moment.t_mono_s, 6),
            "segment": moment.segment,
            "turn": moment.turn,
            "detector": detector,
            "prefix": {"length": moment.length, "digest": moment.digest},
            **fields,
        }
        self.attempt.append(name, loose_bytes(row) + b"\n", writer, sync=sync)
