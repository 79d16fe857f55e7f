"""The answer to a request: from the gateway itself, or from the provider as its bytes come, with what is learned on the
way.

Rules:
1. Nothing is passed on before the request is durable. A streamed reply is handed on as it comes; a whole one after it
   was read.
2. A reply that the cell may not have (longer than the input limit, no reply of the protocol) is replaced by the
   protocol's error;
   the record keeps both.
3. A reply that breaks off is broken off towards the cell, too: nothing is made up.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol as Interface

from cells.recording.protocols import Unreadable, read_reply
from cells.recording.protocols.messages import early_input
from cells.recording.views import ReplyView
from cells.recording.wire import ErrorNote, Protocol
from launchers.gateway.arrival import Arrived, Incoming
from launchers.gateway.local import local_answer
from launchers.gateway.providers.base import Call, ProviderFault, Reply
from launchers.gateway.refusals import Refusal, too_long
from launchers.gateway.session import Session
from launchers.gateway.tries import TryLog

_JSON = {"content-type": "application/json"}


class ClientGone(Exception):
    """The cell closed the connection, or does not read."""


class Outgoing(Interface):
    """The cell's side of an exchange. All raise `ClientGone`."""

    @property
    def begun(self) -> bool:
        """Whether a byte of the answer may have reached the cell."""

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer."""

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin a streamed answer."""

    async def part(self, content: bytes) -> None:
        """Send bytes of a streamed answer."""

    async def end(self) -> None:
        """End a streamed answer."""

    def break_off(self) -> None:
        """Close the connection without ending the answer."""


@dataclass
class Answer:
    """What became of an exchange, while it becomes."""

    status: int | None = None
    by_provider: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    streamed: bool = False
    body: bytearray | None = None
    """What its origin gave; null when it gave nothing."""
    sent: bytes | None = None
    """What the cell got instead."""
    reply: ReplyView | None = None
    complete: bool = False
    too_long: bool = False
    error: ErrorNote | None = None
    client_gone: bool = False
    log: TryLog = field(default_factory=TryLog)
    provider_s: float = 0.0


async def give_answer(session: Session, incoming: Incoming, arrived: Arrived, out: Outgoing, answer: Answer) -> None:
    """Answer an arrived request; `answer` is filled as far as it got. `ClientGone` is noted, not raised."""
    try:
        if arrived.refusal is not None:
            await _refuse(arrived.refusal, arrived.asked.row.protocol, out, answer)
        elif arrived.found.local is not None:
            await _local(session, arrived, out, answer)
        else:
            await session.record.commit.durable(arrived.mark)
            await _pass_on(session, incoming, arrived, out, answer)
    except ClientGone:
        answer.client_gone = True


async def _refuse(refusal: Refusal, protocol: Protocol | None, out: Outgoing, answer: Answer) -> None:
    body = refusal.body(protocol)
    answer.error = answer.error or ErrorNote(kind=refusal.kind, detail=refusal.message)
    answer.status, answer.headers = refusal.status, _JSON
    if answer.body is None:
        answer.body = bytearray(body)
    else:
        answer.sent = body
    await out.whole(refusal.status, _JSON, body)


async def _local(session: Session, arrived: Arrived, out: Outgoing, answer: Answer) -> None:
    found = local_answer(arrived.found, session.model_name, session.cell.input_limit)
    if isinstance(found, Refusal):
        await _refuse(found, None, out, answer)
        return
    answer.status, answer.headers, answer.body, answer.complete = 200, _JSON, bytearray(found), True
    await out.whole(200, _JSON, found)


async def _pass_on(session: Session, incoming: Incoming, arrived: Arrived, out: Outgoing, answer: Answer) -> None:
    call = _call(session, incoming, arrived)
    try:
        async with AsyncExitStack() as held:
            with _waits(session, answer):
                reply = await held.enter_async_context(session.tries.reply(call, answer.log))
            answer.by_provider = True
            answer.status, answer.headers = reply.status, reply.headers
            if reply.stream is None:
                await _whole(session, reply.whole or b"", call, out, answer)
            else:
                await _streamed(session, reply, reply.stream, call, out, answer)
    except ProviderFault as fault:
        answer.error = ErrorNote(kind=fault.kind, detail=fault.detail)
        if fault.failure is not None:
            session.fail(fault.failure, fault.detail)
        if answer.streamed:
            out.break_off()
        else:
            await _refuse(_of_fault(fault), call.protocol, out, answer)


def _call(session: Session, incoming: Incoming, arrived: Arrived) -> Call:
    place, found = arrived.place, arrived.found
    protocol = found.protocol or found.side
    assert protocol is not None
    return Call(
        protocol=protocol,
        path=found.path,
        query=incoming.query,
        headers=incoming.headers,
        body=arrived.sent_body,
        view=arrived.asked.view,
        lane=place.lane.id if place else "",
        is_main=place is not None and session.record.derivation.book.may_be_main(place.lane),
        ordinal=place.ordinal if place else 0,
        exchange=arrived.asked.row.exchange,
    )


@contextmanager
def _waits(session: Session, answer: Answer) -> Iterator[None]:
    begun = time.monotonic()
    try:
        with session.waiting.waiting():
            yield
    finally:
        answer.provider_s += time.monotonic() - begun


async def _whole(session: Session, body: bytes, call: Call, out: Outgoing, answer: Answer) -> None:
    answer.body = bytearray(body)
    refusal = None
    if answer.status is not None and answer.status < 300 and call.view is not None:
        try:
            answer.reply = read_reply(call.protocol, body, streamed=False)
        except Unreadable as error:
            refusal = Refusal(502, "not_a_reply", f"the provider's reply is none of {call.protocol}: {error}")
        else:
            usage = answer.reply.usage
            refusal = _over_limit(session, usage.input if usage else None, call, answer)
    elif answer.status is not None and answer.status >= 400:
        answer.error = ErrorNote(kind="http_status", detail=f"the provider answered with status {answer.status}")
    if refusal is not None:
        await _refuse(refusal, call.protocol, out, answer)
        return
    await out.whole(answer.status or 502, answer.headers, body)
    answer.complete = answer.error is None and (answer.reply is None or _ended(answer, answer.reply))


def _ended(answer: Answer, reply: ReplyView) -> bool:
    """Whether a reply reached its own end; notes why it did not."""
    if reply.error is not None:
        answer.error = reply.error
    elif reply.finish == "failed":
        answer.error = ErrorNote(kind="provider_error", detail="the reply says that it failed")
    elif reply.finish is None:
        answer.error = ErrorNote(kind="incomplete_reply", detail="the reply ended before its finish reason")
    return answer.error is None


def _over_limit(session: Session, tokens: int | None, call: Call, answer: Answer) -> Refusal | None:
    limit = session.cell.input_limit
    if limit is None or tokens is None or tokens <= limit:
        return None
    answer.too_long = True
    return too_long(tokens, limit, call.protocol)


async def _streamed(
    session: Session, reply: Reply, stream: AsyncIterator[bytes], call: Call, out: Outgoing, answer: Answer
) -> None:
    answer.body = body = bytearray()
    async for part in _waited(session, stream, answer):
        body += part
        if not answer.streamed:
            early = early_input(part) if call.protocol == "anthropic-messages" else None
            refusal = _over_limit(session, reply.input_tokens or early, call, answer)
            if refusal is not None:
                answer.by_provider = True
                await _refuse(refusal, call.protocol, out, answer)
                return
            answer.streamed = True
            await out.begin(reply.status, answer.headers)
        await out.part(part)
    await out.end()
    answer.reply = read_reply(call.protocol, bytes(body), streamed=True)
    answer.complete = _ended(answer, answer.reply)


async def _waited(session: Session, stream: AsyncIterator[bytes], answer: Answer) -> AsyncIterator[bytes]:
    while True:
        with _waits(session, answer):
            part = await anext(stream, None)
        if part is None:
            return
        yield part


def _of_fault(fault: ProviderFault) -> Refusal:
    status = {"timeout": 504, "endpoint_down": 503, "script_exhausted": 503, "script_mismatch": 503}.get(
        fault.kind, 502
    )
    return Refusal(status, fault.kind, f"the provider gave no reply ({fault.kind})")
