"""Endpoints: what all cells that use one provider endpoint share: concurrency, rate, and a breaker.

Rules:
1. At most `max_concurrency` requests are under way; at most `requests_per_minute` start in any minute, evenly spaced.
2. `_TRIP` faults of reaching it in a row, whichever cells they hit, open the breaker: the endpoint is down, cells that
   ask are lost
   (`endpoint_down`) instead of spending their tries, and the study pauses.
3. After `_COOL_S` one request is let through; its success closes the breaker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from launchers.gateway.contract import EndpointStatus
from launchers.gateway.providers.base import ProviderFault

_TRIP = 8
_COOL_S = 15.0


@dataclass
class Endpoint:
    """One endpoint. Made inside a running loop."""

    name: str
    max_concurrency: int | None = None
    requests_per_minute: int | None = None
    now: Callable[[], float] = time.monotonic
    _places: asyncio.Semaphore | None = None
    _next_start: float = 0.0
    _faults: int = 0
    _down_since: float | None = None
    _probe_at: float = 0.0
    _detail: str | None = None
    in_flight: int = 0
    queued: int = 0

    def __post_init__(self) -> None:
        if self.max_concurrency is not None:
            self._places = asyncio.Semaphore(self.max_concurrency)

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """A place for one try. `ProviderFault` (`endpoint_down`) while the breaker is open."""
        probing = self._refuse_when_down()
        self.queued += 1
        try:
            if self._places is not None:
                await self._places.acquire()
        finally:
            self.queued -= 1
        try:
            await self._paced()
            if not probing:
                self._refuse_when_down()
            self.in_flight += 1
            try:
                yield
            finally:
                self.in_flight -= 1
        finally:
            if self._places is not None:
                self._places.release()

    def succeeded(self) -> None:
        """The endpoint answered, whatever it said."""
        self._faults, self._down_since, self._detail = 0, None, None

    def failed(self, fault: ProviderFault) -> None:
        """The endpoint could not be reached or broke off."""
        self._faults += 1
        self._detail = f"{fault.kind}: {fault.detail}"
        if self._faults >= _TRIP and self._down_since is None:
            self._down_since = self.now()
        if self._down_since is not None:
            self._probe_at = self.now() + _COOL_S

    def status(self) -> EndpointStatus:
        """For the study."""
        since = self._down_since
        down_s = 0.0 if since is None else self.now() - since
        return EndpointStatus(self.name, since is not None, down_s, self.in_flight, self.queued, self._detail)

    def _refuse_when_down(self) -> bool:
        """Whether this request is the one that is let through to see whether the endpoint is back."""
        if self._down_since is None:
            return False
        if self.now() < self._probe_at:
            raise ProviderFault("endpoint_down", f"{self.name}: {self._detail}", failure="endpoint_down")
        self._probe_at = self.now() + _COOL_S
        return True

    async def _paced(self) -> None:
        if self.requests_per_minute is None:
            return
        start = max(self.now(), self._next_start)
        self._next_start = start + 60.0 / self.requests_per_minute
        await asyncio.sleep(start - self.now())


@dataclass
class Endpoints:
    """All endpoints of a gateway, by name. The first cell that names one fixes its limits; the study gives all the
    same."""

    known: dict[str, Endpoint] = field(default_factory=dict)

    def get(self, name: str, max_concurrency: int | None, requests_per_minute: int | None) -> Endpoint:
        if name not in self.known:
            self.known[name] = Endpoint(name, max_concurrency, requests_per_minute)
        return self.known[name]

    def statuses(self) -> list[EndpointStatus]:
        """All of them."""
        return [endpoint.status() for endpoint in self.known.values()]
