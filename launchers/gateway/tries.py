"""Tries: getting one reply from a provider, with retries, each of them on the record.

Rules:
1. 408, 409, 425, 429 and 5xx, time-outs and broken connections are tried again, up to `max_retries` times, while
   nothing reached the cell yet.
2. The wait doubles from 0.5 s to 30 s with full jitter; `Retry-After` is obeyed up to 120 s, a longer one ends the
   tries.
3. A place at the endpoint is held from the start of a try to the last byte of its reply, and given back while waiting.
4. What was not answered in the end is the provider's own error where it sent one, else a fault.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cells.recording.wire import Try
from launchers.gateway.endpoint import Endpoint
from launchers.gateway.providers.base import Call, Provider, ProviderFault, Reply

_RETRIED = frozenset((408, 409, 425, 429, *range(500, 600)))
_DOWN = frozenset((502, 503, 504))
_FIRST_WAIT_S, _LONGEST_WAIT_S, _LONGEST_ASKED_S = 0.5, 30.0, 120.0


@dataclass
class TryLog:
    """What the tries of one exchange took."""

    tries: list[Try] = field(default_factory=list)
    queue_s: float = 0.0
    first_byte_s: float | None = None


@dataclass
class Tries:
    """The tries of one cell at its provider."""

    provider: Provider
    endpoint: Endpoint
    max_retries: int
    random: random.Random
    now: Callable[[], float] = time.monotonic

    @asynccontextmanager
    async def reply(self, call: Call, log: TryLog) -> AsyncIterator[Reply]:
        """The reply, its first bytes already there; valid inside the block. `ProviderFault` when there is none."""
        async with AsyncExitStack() as held:
            yield await self._obtained(call, log, held)

    async def _obtained(self, call: Call, log: TryLog, held: AsyncExitStack) -> Reply:
        for number in range(self.max_retries + 1):
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            last = number == self.max_retries
            async with AsyncExitStack() as one:
                fault: ProviderFault | None = None
                try:
                    reply = await self._one(call, log, one)
                except asyncio.CancelledError:
                    log.tries.append(Try(at=at, status=None, error="cancelled", wait_s=0.0))
                    raise
                except ProviderFault as found:
                    fault, wait = found, None if last or not found.retry else self._wait(number, None)
                else:
                    again = reply.status in _RETRIED and not last
                    wait = self._wait(number, reply.retry_after_s) if again else None
                status, error = (None, fault.kind) if fault else (reply.status, None)
                log.tries.append(Try(at=at, status=status, error=error, wait_s=wait or 0.0))
                if wait is None:
                    if fault is not None:
                        raise fault
                    held.push_async_callback(one.pop_all().aclose)
                    return reply
            await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _one(self, call: Call, log: TryLog, one: AsyncExitStack) -> Reply:
        begun = self.now()
        try:
            await one.enter_async_context(self.endpoint.admitted())
        finally:
            log.queue_s += self.now() - begun
        sent = self.now()
        try:
            reply = await one.enter_async_context(self.provider.send(call))
            reply = await _with_first_bytes(reply)
        except ProviderFault as fault:
            if fault.retry and self.provider.remote:
                self.endpoint.failed(fault)
            raise
        if reply.status in _DOWN and self.provider.remote:
            self.endpoint.failed(ProviderFault("unavailable", f"status {reply.status}"))
        else:
            self.endpoint.succeeded()
        log.first_byte_s = self.now() - sent
        return reply

    def _wait(self, number: int, asked: float | None) -> float | None:
        """Seconds before the next try; None when the provider asks for more than is waited."""
        if asked is not None and asked > _LONGEST_ASKED_S:
            return None
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**number)
        return max(asked or 0.0, self.random.uniform(longest / 2, longest))


async def _with_first_bytes(reply: Reply) -> Reply:
    """A streamed reply counts once its first bytes are there: until then another try loses nothing."""
    if reply.stream is None:
        return reply
    try:
        first = await anext(reply.stream)
    except StopAsyncIteration:
        raise ProviderFault("empty_reply", "the stream ended before its first byte", retry=True) from None
    return replace(reply, stream=_rejoined(first, reply.stream))


async def _rejoined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in rest:
        yield part
