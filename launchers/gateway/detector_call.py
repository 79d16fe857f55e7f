"""A detector's question to the cell's model: on the wire like every exchange, in a lane of its own, charged to the
cell.

Rules:
1. It is asked while the cell's next request waits for the decision: its rows stand before that request's row.
2. Its lane is `detector`: no turn, no row of trace or transcript; its tokens and cost count for the limits of the cell.
3. Whatever happens to it, it has its response row; it never ends the cell, and a limit that is reached is a reason
   not to ask.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack

from cells.recording.derive import Asked
from cells.recording.protocols import Unreadable, read_reply, read_request
from cells.recording.views import ReplyView
from cells.recording.wire import DETECTOR_LANE, ErrorNote, Peer, Protocol, RequestRow
from launchers.gateway.answer import Answer
from launchers.gateway.arrival import Arrived
from launchers.gateway.budget import limit_hit
from launchers.gateway.decisions import Messages, ModelReply
from launchers.gateway.outcome import Moment, charge, response_row
from launchers.gateway.providers.base import Call, ProviderFault
from launchers.gateway.routes import Route
from launchers.gateway.session import Session

ASK_DEADLINE_S = 12.0
_REPLY_TOKENS = 16
_PATHS: dict[Protocol, str] = {"openai-chat": "/chat/completions", "anthropic-messages": "/messages"}


async def ask_model(session: Session, messages: Messages) -> ModelReply:
    """The model's answer to a detector. Call it only while a request of the cell waits for its decision."""
    if session.refusal_for_all() is not None or limit_hit(session.cell.limits, session.spent, 0, main=False):
        return ModelReply(None, error="a limit of the cell is reached")
    protocol = next((one for one in _PATHS if one in session.provider.protocols), None)
    if protocol is None:
        return ModelReply(None, error="the cell's model speaks no protocol in which a detector asks")
    begun, body = time.monotonic(), _body(session, messages, protocol)
    arrived = _arrived(session, body, protocol)
    answer = Answer()
    session.spent.requests += 1
    try:
        await session.record.commit.durable(arrived.mark)
        async with asyncio.timeout(ASK_DEADLINE_S):
            await _answered(session, arrived, protocol, answer)
    except TimeoutError:
        answer.error = ErrorNote(kind="timeout", detail=f"no reply within {ASK_DEADLINE_S:g} s")
    finally:
        reply = _told(answer, protocol)
        _recorded(session, arrived, answer, reply, begun)
    return _as_reply(arrived, answer, reply)


def _body(session: Session, messages: Messages, protocol: Protocol) -> bytes:
    """A request in the provider's protocol, without tools."""
    document: dict[str, object] = {"model": session.model_name, "max_tokens": _REPLY_TOKENS}
    if protocol == "anthropic-messages":
        document["system"] = "\n".join(one["content"] for one in messages if one["role"] == "system")
        document["messages"] = [one for one in messages if one["role"] != "system"]
    else:
        document["messages"] = messages
    return json.dumps(document).encode()


def _arrived(session: Session, body: bytes, protocol: Protocol) -> Arrived:
    record = session.record
    stamp, exchange = record.stamp(), record.next_exchange()
    stored, ordinal = record.store(body), session.counters.detector_calls
    session.counters.detector_calls += 1

    def row(seq: int) -> RequestRow:
        return RequestRow(
            seq=seq,
            t_mono_s=stamp.t_mono_s,
            at=stamp.at,
            exchange=exchange,
            lane=DETECTOR_LANE,
            ordinal=ordinal,
            main=False,
            protocol=None,
            method="POST",
            path=_PATHS[protocol],
            headers={},
            body=stored,
            peer=Peer(uid=None, pid=None),
        )

    written = record.write(row)
    assert isinstance(written, RequestRow)
    return Arrived(Asked(written, None, None), Route(path=_PATHS[protocol]), body, None, record.flush())


async def _answered(session: Session, arrived: Arrived, protocol: Protocol, answer: Answer) -> None:
    row = arrived.asked.row
    call = Call(
        protocol=protocol,
        path=row.path,
        query="",
        headers={"content-type": "application/json"},
        body=arrived.sent_body,
        view=read_request(protocol, arrived.sent_body),
        lane=DETECTOR_LANE,
        is_main=False,
        ordinal=row.ordinal or 0,
        exchange=row.exchange,
    )
    try:
        async with AsyncExitStack() as held:
            with session.waiting.waiting():
                reply = await held.enter_async_context(session.tries.reply(call, answer.log))
                answer.by_provider, answer.status, answer.headers = True, reply.status, reply.headers
                parts = [reply.whole or b""] if reply.stream is None else [part async for part in reply.stream]
            answer.body = bytearray(b"".join(parts))
            answer.complete = reply.status < 300
    except ProviderFault as fault:
        answer.error = ErrorNote(kind=fault.kind, detail=fault.detail)


def _told(answer: Answer, protocol: Protocol) -> ReplyView | None:
    if not answer.complete or answer.body is None:
        return None
    try:
        return read_reply(protocol, bytes(answer.body), streamed=False)
    except Unreadable as error:
        answer.complete, answer.error = False, ErrorNote(kind="not_a_reply", detail=str(error))
        return None


def _recorded(session: Session, arrived: Arrived, answer: Answer, reply: ReplyView | None, begun: float) -> None:
    cost = charge(session, answer, reply)
    row = session.record.write(lambda seq: response_row(session, arrived, answer, reply, Moment(seq, begun, cost)))
    session.counters.retries += max(0, len(answer.log.tries) - 1)
    session.counters.errors += answer.error is not None
    session.record.derived(session.record.derivation.response(row, None, arrived.asked))
    session.record.flush()


def _as_reply(arrived: Arrived, answer: Answer, reply: ReplyView | None) -> ModelReply:
    exchange = arrived.asked.row.exchange
    if reply is not None:
        return ModelReply(reply.text, exchange)
    error = answer.error.kind if answer.error else f"status {answer.status}"
    return ModelReply(None, exchange, error)
