"""What a provider is to the gateway: it takes a call and gives a reply, whole or as a stream of bytes.

Rules:
1. A provider passes on bytes as they are; it never retries, limits or records: that is the gateway's part, the same for
   all.
2. What goes wrong is a `ProviderFault`: a kind, a text without secrets, whether another try may help, and whether the
   cell is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

import aiohttp

from cells.errors import UsageError
from cells.recording.views import RequestView
from cells.recording.wire import Protocol


class UnknownProvider(UsageError):
    """The study names a provider that does not exist here."""


class ProviderFault(Exception):
    """The provider did not give a reply. `failure` names why the cell is lost; None when the cell may see an error."""

    def __init__(self, kind: str, detail: str, *, retry: bool = False, failure: str | None = None) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail, self.retry, self.failure = kind, detail[:500], retry, failure


@dataclass(frozen=True)
class ProviderSetting:
    """What a provider is made of: the model section, the cell's script, its input limit, the keys by name, the
    client."""

    model: Mapping[str, Any]
    script: Path | None
    input_limit: int | None
    keys: Mapping[str, str]
    client: aiohttp.ClientSession
    max_body: int


@dataclass(frozen=True)
class Call:
    """A request to be passed on. `view` is null for side calls; `lane` and `ordinal` say which request of which lane it
    is."""

    protocol: Protocol
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    view: RequestView | None
    lane: str
    is_main: bool
    ordinal: int
    exchange: int


@dataclass(frozen=True)
class Reply:
    """A reply. `whole` holds its bytes, or `stream` gives them; `input_tokens` is told before the first byte, where it
    is known."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    whole: bytes | None = None
    stream: AsyncIterator[bytes] | None = None
    input_tokens: int | None = None
    retry_after_s: float | None = None


class Provider(Interface):
    """One model for one cell."""

    protocols: frozenset[Protocol]
    endpoint: str
    """Cells with the same endpoint share its concurrency, rate and breaker."""
    remote: bool
    """Whether faults say something of an endpoint that other cells use; a script's or a recording's do not."""

    def send(self, call: Call) -> AbstractAsyncContextManager[Reply]:
        """Pass a call on; the reply is valid inside the block. `ProviderFault`, also while the stream is read."""

    async def probe(self) -> Mapping[str, Any]:
        """What the endpoint says of itself, for start/server_meta.json; without a model call."""
