"""Rows of the three records of live detection, as they are written and as an audit reads them.

Rules:
1. Every row names the prefix that its decision was made from: turn, bytes of live/trace.jsonl, digest of these bytes.
2. `adaptive_control_ledger.jsonl`: what the controller did or did not do, and why. `adaptive_debug.jsonl`: how it came
   about. `llm_hurdle_detector.jsonl`: what a model was asked, in summary, and what it answered.
3. None of them is evidence that a hurdle existed.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

LEDGER = "live/adaptive_control_ledger.jsonl"
DEBUG = "live/adaptive_debug.jsonl"
MODEL_CALLS = "live/llm_hurdle_detector.jsonl"
DECISION_VERSION: Literal[1] = 1
Decided = Literal["none", "note", "stop"]
Count = Annotated[StrictInt, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PrefixMark(_Part):
    """Where the trace stood: bytes from its start, and their digest."""

    length: Count
    digest: StrictStr


class Pointer(_Part):
    """A piece of evidence: a row's turn and field."""

    turn: Count
    field: Annotated[StrictStr, Field(max_length=64)]


class NoteAction(_Part):
    """A note was added after the results of the turn. `budget_left`: further actions that the detector may cause."""

    kind: Literal["note"] = "note"
    note_sha256: StrictStr
    text: StrictStr
    budget_left: Count


class StopAction(_Part):
    """The run was stopped before the next request."""

    kind: Literal["stop"] = "stop"
    budget_left: Count


class DecisionRow(_Part):
    """What all three have. `t_mono_s`: seconds since the attempt's start."""

    v: Literal[1] = DECISION_VERSION
    seq: Annotated[StrictInt, Field(ge=1)]
    t_mono_s: float
    segment: Count
    turn: Count
    detector: StrictStr
    prefix: PrefixMark


class ControllerRow(DecisionRow):
    """A row of the ledger. `why`: hit, no_hit, warmup, cadence, budget, superseded, or `child_gone: ` and a reason."""

    decision: Decided
    applied: StrictBool
    why: StrictStr
    action: Annotated[NoteAction | StopAction, Field(discriminator="kind")] | None


class ExplainedRow(DecisionRow):
    """A row of the debug record: the fields that were read, the code that decided (its digest), the seconds it took."""

    decision: Decided
    evidence: tuple[Pointer, ...]
    facts: dict[str, StrictInt | StrictStr]
    fields: tuple[StrictStr, ...]
    code: StrictStr
    took_s: float


class AskedInput(_Part):
    """What a model was asked, in summary; the whole stands on the wire under the reply's exchange."""

    messages: Count
    chars: Count
    sha256: StrictStr


class ModelAnswer(_Part):
    """What the detector got: the text, capped, or why there is none; where it stands on the wire."""

    exchange: StrictInt | None
    error: StrictStr | None
    text: StrictStr | None


class ModelCallRow(DecisionRow):
    """A model-backed call. `result` is null when the model gave no answer."""

    input: AskedInput
    reply: ModelAnswer
    result: Decided | None
    role: Literal["detector"] = "detector"


ROWS: dict[str, type[DecisionRow]] = {LEDGER: ControllerRow, DEBUG: ExplainedRow, MODEL_CALLS: ModelCallRow}
