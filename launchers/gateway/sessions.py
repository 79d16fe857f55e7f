"""All open sessions of a gateway process: opening, segments, closing."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp

from cells.errors import UsageError
from launchers.gateway.commit import RecordLost
from launchers.gateway.contract import GatewayCell, ListenLimits, SessionTotals
from launchers.gateway.decisions import SessionFacts, TurnWatcher, open_watcher
from launchers.gateway.detector_call import ask_model
from launchers.gateway.endpoint import Endpoints
from launchers.gateway.listener import Listener, listen
from launchers.gateway.providers import open_provider
from launchers.gateway.providers.base import ProviderSetting
from launchers.gateway.providers.upstream import shown_url
from launchers.gateway.record import SessionRecord
from launchers.gateway.serving import Serving
from launchers.gateway.session import Session, price_of
from launchers.gateway.tries import Tries

DEFAULT_LIMITS = ListenLimits()
OpenWatcher = Callable[[SessionFacts], Awaitable[TurnWatcher | None]]
_DEFAULT_RETRIES = 5


@dataclass
class _Open:
    session: Session
    serving: Serving
    listener: Listener
    segment: int = 1


@dataclass
class Sessions:
    """The sessions of one process. `keys` are the secrets by name."""

    run_dir: Path
    keys: Mapping[str, str]
    client: aiohttp.ClientSession
    executor: Executor
    heavy: Executor | None = None
    limits: ListenLimits = DEFAULT_LIMITS
    watch: OpenWatcher = open_watcher
    endpoints: Endpoints = field(default_factory=Endpoints)
    _open: dict[str, _Open] = field(default_factory=dict)
    _number: int = 0

    async def open(self, cell: GatewayCell) -> Path:
        """Open a cell; the directory that holds its socket. UsageError for a key in use, a bad script, a missing
        secret."""
        if cell.key in self._open:
            raise UsageError(f"cell {cell.key!r} is open already")
        session = self._session(cell)
        serving = Serving(session)
        self._number += 1
        directory = self.run_dir / f"c{self._number}"
        try:
            ask = partial(ask_model, session)
            facts = SessionFacts(cell.key, cell.attempt_root, session.record.started_mono, cell.detectors, ask)
            session.watcher = await self.watch(facts)
            session.record.begin(1, provenance(cell))
            listener = await listen(serving, directory, cell.peer_uid, self.limits)
        except BaseException:
            session.record.close_files()
            if session.watcher is not None:
                await session.watcher.close()
            raise
        self._open[cell.key] = _Open(session, serving, listener)
        return listener.directory

    def get(self, key: str) -> Session:
        """An open session."""
        return self._get(key).session

    async def segment(self, key: str, further: Mapping[str, object]) -> int:
        """A resume of the harness: its number."""
        opened = self._get(key)
        opened.segment += 1
        record = opened.session.record
        begin = {**provenance(opened.session.cell), **further}
        record.after_arrival(lambda: record.begin(opened.segment, begin))
        return opened.segment

    async def close(self, key: str, finish_reason: str | None) -> SessionTotals:
        """Close a cell: no more requests, the record whole and durable, its totals."""
        opened = self._get(key)
        del self._open[key]
        session = opened.session
        await opened.listener.close()
        if session.watcher is not None:
            await session.watcher.close()
        await opened.serving.settled()
        try:
            await session.record.commit.durable(session.record.close(finish_reason))
            await asyncio.get_running_loop().run_in_executor(self.executor, session.record.close_files)
        except (OSError, RecordLost) as error:
            session.fail("record_lost", str(error))
        return session.totals()

    async def close_all(self) -> None:
        """The process ends: what is open is closed without a reason of its own."""
        for key in list(self._open):
            await self.close(key, None)

    def _session(self, cell: GatewayCell) -> Session:
        setting = ProviderSetting(
            cell.model, cell.script, cell.input_limit, self.keys, self.client, self.limits.max_body
        )
        provider = open_provider(setting)
        limits = cell.model.get("max_concurrency"), cell.model.get("requests_per_minute")
        endpoint = self.endpoints.get(provider.endpoint, *limits)
        retries = cell.model.get("max_retries")
        tries = Tries(
            provider, endpoint, _DEFAULT_RETRIES if retries is None else int(retries), random.Random(cell.key)
        )
        started = time.monotonic() if cell.started_mono is None else cell.started_mono
        record = SessionRecord.create(cell.attempt_root, started, self.executor, self.heavy)
        return Session(cell, record, provider, tries, price_of(cell.model))

    def _get(self, key: str) -> _Open:
        if key not in self._open:
            raise UsageError(f"cell {key!r} is not open; open are {sorted(self._open) or 'none'}")
        return self._open[key]


def provenance(cell: GatewayCell) -> dict[str, object]:
    """The run-start fields that the gateway knows, and those that the launcher gave; free of secrets."""
    model = cell.model
    base_url = model.get("base_url")
    return {
        "model_target": model.get("name"),
        "model": model.get("model"),
        "provider": model.get("provider"),
        "base_url": shown_url(str(base_url)) if base_url else None,
        "context_size": cell.input_limit,
        **cell.provenance,
    }
