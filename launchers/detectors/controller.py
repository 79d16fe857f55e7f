"""The controller of one cell: asks its detectors at the end of every turn, and decides what is done about it.

Rules (25-formats, "Detectors"; saved-files, "Controller"):
1. A decision about turn N is made when request N+1 arrives, before it is forwarded, from the rows through turn N.
2. Warm-up, cadence and budget are the arm's; only an action that is applied uses budget.
3. One action a turn: a stop before a note, else the first detector by name; the others are recorded as `superseded`.
4. A child that is gone is recorded once with its reason; from then on its detectors decide nothing, and the harness
   goes on.
5. Rows are projected here, before any byte crosses to the child.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cells.artifacts.decision_rows import NoteAction, StopAction
from cells.artifacts.live_readers import TRACE, detector_reader, own_settings
from cells.attempt import LiveAttempt
from cells.detection.judgement import Detector
from cells.detection.notes import render, template_of
from cells.detection.registry import make
from cells.detection.schedule import ArmDetector
from cells.evidence.digest import digest_bytes
from launchers.detectors.child_process import DECISION_DEADLINE_S
from launchers.detectors.messages import Answer, ChildGone, introduction, question, read_answer
from launchers.detectors.records import DecisionRecords, Moment
from launchers.gateway.decisions import NOTHING, AskModel, Decision

Row = Mapping[str, Any]


class Child(Protocol):
    """What the controller needs of a child process."""

    async def ask(self, message: Mapping[str, Any], deadline_s: float = DECISION_DEADLINE_S) -> bytes:
        """The answering line; `ChildGone`."""

    async def close(self) -> None:
        """End it; safe twice."""


StartChild = Callable[[Mapping[str, Any]], Awaitable[Child]]


@dataclass
class _Watched:
    """A detector of the arm while the cell runs."""

    arm: ArmDetector
    detector: Detector
    template: str
    fields: frozenset[str]
    acted: int = 0
    pending: list[dict[str, Any]] = field(default_factory=list)
    """Projected rows that the child has not got yet."""

    def take(self, rows: Sequence[Row]) -> None:
        self.pending += [{key: row[key] for key in row if key in self.fields} for row in rows]


@dataclass(frozen=True)
class _Found:
    watched: _Watched
    answer: Answer


class Controller:
    """The detectors of one cell."""

    def __init__(self, attempt: LiveAttempt, arm: Mapping[str, ArmDetector], start: StartChild, ask: AskModel) -> None:
        self._records = DecisionRecords(attempt)
        self._watched = [_watch(one) for one in arm.values()]
        self._start, self._ask = start, ask
        self._child: Child | None = None
        self._gone: str | None = None

    async def start(self) -> None:
        """Start the child, before the first request. One that does not come up is recorded at the first decision."""
        arm = {one.arm.name: one.arm for one in self._watched}
        try:
            self._child = await self._start(introduction(arm)) if arm else None
        except ChildGone as error:
            self._gone = str(error)

    async def decide(self, moment: Moment, rows: Sequence[Row]) -> Decision:
        """Decide about the newest complete turn; `rows` are the trace rows since the last call."""
        try:
            return self._act(moment, await self._hits(moment, rows))
        except asyncio.CancelledError:
            self._gone = self._gone or "it was not waited for"
            await self.close()
            raise

    async def close(self) -> None:
        """End the child."""
        if self._child is not None:
            await self._child.close()

    async def _hits(self, moment: Moment, rows: Sequence[Row]) -> list[_Found]:
        found: list[_Found] = []
        for watched in self._watched:
            why_not = watched.arm.why_not(moment.turn, watched.acted)
            watched.take(() if why_not == "budget" else rows)
            if why_not is not None:
                self._records.decided(moment, watched.arm.name, "none", why_not, None)
            elif (answer := await self._judgement(moment, watched)) is not None:
                found.append(_Found(watched, answer))
        return found

    async def _judgement(self, moment: Moment, watched: _Watched) -> Answer | None:
        """The answer when it is a hit; what is none is recorded here."""
        began = time.monotonic()
        try:
            answer = await self._asked(moment, watched)
        except ChildGone as error:
            self._records.decided(moment, watched.arm.name, "none", f"child_gone: {error}", None)
            self._gone = str(error)
            return None
        self._records.explained(moment, answer, watched.fields, time.monotonic() - began)
        if answer.decision != "none":
            return answer
        self._records.decided(moment, watched.arm.name, "none", "no_hit", None)
        return None

    async def _asked(self, moment: Moment, watched: _Watched) -> Answer:
        rows, watched.pending = watched.pending, []
        answer = await self._told(moment, watched, question(watched.arm.name, moment.turn, rows))
        if answer.ask is None:
            return answer
        reply = await self._ask([one.model_dump() for one in answer.ask.messages])
        if reply.text is None:
            self._records.asked_model(moment, watched.arm.name, answer.ask, reply, None)
            return answer
        judged = await self._told(moment, watched, question(watched.arm.name, moment.turn, [], reply.text))
        self._records.asked_model(moment, watched.arm.name, answer.ask, reply, judged)
        return judged

    async def _told(self, moment: Moment, watched: _Watched, message: Mapping[str, Any]) -> Answer:
        if self._child is None or self._gone is not None:
            raise ChildGone(self._gone or "never started")
        line = await self._child.ask(message, DECISION_DEADLINE_S)
        try:
            return read_answer(line, watched.detector, moment.turn, watched.arm.action)
        except ChildGone:
            await self._child.close()
            raise

    def _act(self, moment: Moment, found: list[_Found]) -> Decision:
        if not found:
            return NOTHING
        chosen = next((one for one in found if one.answer.decision == "stop"), found[0])
        for one in found:
            if one is not chosen:
                name, decision = one.watched.arm.name, one.answer.decision
                self._records.decided(moment, name, decision, "superseded", None)
        chosen.watched.acted += 1
        return self._stop(moment, chosen) if chosen.answer.decision == "stop" else self._note(moment, chosen)

    def _stop(self, moment: Moment, chosen: _Found) -> Decision:
        name = chosen.watched.arm.name
        self._records.decided(moment, name, "stop", "hit", StopAction(budget_left=_left(chosen)))
        return Decision("stop", by=name)

    def _note(self, moment: Moment, chosen: _Found) -> Decision:
        name = chosen.watched.arm.name
        text = render(chosen.watched.template, chosen.answer.facts)
        action = NoteAction(note_sha256=digest_bytes(text.encode()), text=text, budget_left=_left(chosen))
        self._records.decided(moment, name, "note", "hit", action)
        return Decision("note", text, name)


def _watch(arm: ArmDetector) -> _Watched:
    detector = make(arm.name, own_settings(arm.settings))
    fields = detector_reader(detector, arm.settings).fields[TRACE]
    return _Watched(arm, detector, template_of(detector, arm.settings), fields)


def _left(chosen: _Found) -> int:
    return chosen.watched.arm.budget - chosen.watched.acted
