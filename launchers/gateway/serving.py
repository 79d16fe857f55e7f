"""Serving: the story of one exchange, from its arrival to its response row, whatever happens in between.

Rules:
1. Every request that arrived gets a response row, also when the cell or the session went away meanwhile.
2. No fault in one exchange ends another; an unknown one loses its cell (`gateway_error`), never the gateway.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, TypeVar

from cells.recording.wire import ErrorNote
from launchers.gateway.answer import Answer, ClientGone, Outgoing, give_answer
from launchers.gateway.arrival import Arrived, Incoming, arrive
from launchers.gateway.commit import RecordLost
from launchers.gateway.outcome import Moment, charge, handed_on, note_outcome, response_row, told_reply
from launchers.gateway.refusals import Refusal
from launchers.gateway.session import Session

_Result = TypeVar("_Result")
_LAZY_S = 0.01
_log = logging.getLogger("assay.gateway")


class Serving:
    """Serves the exchanges of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._tasks: set[asyncio.Future[Any]] = set()

    async def serve(self, incoming: Incoming, out: Outgoing) -> None:
        """One exchange. `CancelledError` when the cell closed the connection or the session ends: the record has it."""
        served = asyncio.get_running_loop().create_future()
        self._tasks.add(served)
        try:
            await self._serve(incoming, out)
        finally:
            self._tasks.discard(served)
            served.set_result(None)

    async def _serve(self, incoming: Incoming, out: Outgoing) -> None:
        begun = time.monotonic()
        self.session.counters.received += len(incoming.body or b"")
        arriving = self._own(asyncio.create_task(arrive(self.session, incoming)))
        try:
            arrived = await asyncio.shield(arriving)
        except asyncio.CancelledError:
            arriving.add_done_callback(lambda task: self._gone(task, begun))
            raise
        except Exception as error:  # noqa: BLE001 (one cell's fault must not reach another)
            await self._broken(error, out)
            return
        await self._answer(incoming, arrived, out, begun)

    def start(self, incoming: Incoming, out: Outgoing) -> None:
        """One exchange that nobody waits for."""
        self._own(asyncio.create_task(self.serve(incoming, out)))

    async def settled(self) -> None:
        """Wait until every exchange and every sync under way is done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, incoming: Incoming, arrived: Arrived, out: Outgoing, begun: float) -> None:
        session, answer = self.session, Answer()
        passed_on = arrived.refusal is None and arrived.found.protocol is not None
        in_main = (
            passed_on and arrived.place is not None and session.record.derivation.book.may_be_main(arrived.place.lane)
        )
        session.spent.requests += passed_on
        session.main_under_way += in_main
        try:
            await give_answer(session, incoming, arrived, out, answer)
        except asyncio.CancelledError:
            answer.client_gone = True
            raise
        except RecordLost as error:
            session.fail("record_lost", str(error))
            await self._broken(error, out)
        except Exception as error:  # noqa: BLE001 (one cell's fault must not reach another)
            answer.error = ErrorNote(kind="gateway_error", detail=type(error).__name__)
            await self._broken(error, out)
        finally:
            session.main_under_way -= in_main
            session.record.after_arrival(lambda: self._finish(arrived, answer, begun))

    def _gone(self, task: asyncio.Task[Arrived], begun: float) -> None:
        if not task.cancelled() and task.exception() is None:
            answer = Answer(client_gone=True)
            self.session.record.after_arrival(lambda: self._finish(task.result(), answer, begun))

    async def _broken(self, error: Exception, out: Outgoing) -> None:
        _log.error("session %s", self.session.cell.key, exc_info=error)
        self.session.fail(
            "record_lost" if isinstance(error, (OSError, RecordLost)) else "gateway_error", type(error).__name__
        )
        refusal = Refusal(503, "gateway_error", "the gateway cannot serve this request; the cell is lost")
        try:
            if out.begun:
                out.break_off()
            else:
                await out.whole(refusal.status, {"content-type": "application/json"}, refusal.body(None))
        except ClientGone:
            _log.info("session %s: the client is gone", self.session.cell.key)

    def _finish(self, arrived: Arrived, answer: Answer, begun: float) -> None:
        try:
            mark = self._respond(arrived, answer, begun)
        except Exception as error:  # noqa: BLE001 (one cell's fault must not reach another)
            _log.error("session %s", self.session.cell.key, exc_info=error)
            self.session.fail("record_lost" if isinstance(error, OSError) else "gateway_error", type(error).__name__)
            return
        self._own(asyncio.create_task(self._durable(mark)))

    async def _durable(self, mark: int) -> None:
        """Make a response durable, a moment later: the sync of a request that comes meanwhile takes it along."""
        await asyncio.sleep(_LAZY_S)
        try:
            await self.session.record.commit.durable(mark)
        except RecordLost as error:
            self.session.fail("record_lost", str(error))

    def _respond(self, arrived: Arrived, answer: Answer, begun: float) -> int:
        session, record = self.session, self.session.record
        told = told_reply(answer, arrived.asked.row.protocol)
        cost = charge(session, answer, told) if arrived.found.protocol is not None else None
        row = record.write(lambda seq: response_row(session, arrived, answer, told, Moment(seq, begun, cost)))
        note_outcome(session, arrived, answer, row)
        parts = record.derivation.response(row, handed_on(row, told), arrived.asked)
        record.derived(parts)
        if session.watcher is not None:
            session.fresh_rows += parts.rows
        return record.flush()

    def _own(self, task: asyncio.Task[_Result]) -> asyncio.Task[_Result]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
