"""Decisions between turns: what a watcher of detectors is to the gateway.

Rules (25-formats, "Detectors"):
1. A watcher is asked once about turn N, when the next request of main has arrived and before it is passed on; the rows
   of turn N are complete.
2. It gets the new trace rows as dictionaries, the byte length and the digest of the prefix; projecting fields for a
   detector is its part.
3. It has a deadline; one that is late, fails or is gone decides `none`, and the harness goes on: its fault is the
   watcher's to record.
4. A note enters the request as one user text block after the tool results and is sent again in every later request of
   main.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from cells.errors import UsageError

DEADLINE_S = 20.0
MAX_NOTE = 8000
"""Characters of the longest note."""
_FACTORY = "launchers.detectors.watcher:open_watcher"


@dataclass(frozen=True)
class Decision:
    """What the controller does about a turn. `note` is the text that enters the request; `by` names who decided."""

    action: Literal["none", "note", "stop"] = "none"
    note: str = ""
    by: str = ""


NOTHING = Decision()
Messages = list[dict[str, str]]
"""What a detector asks a model: `role` (system or user) and `content`."""


@dataclass(frozen=True)
class ModelReply:
    """What a model answered to a detector, and the exchange where it stands on the wire. No text when it failed."""

    text: str | None
    exchange: int | None = None
    error: str | None = None


AskModel = Callable[[Messages], Awaitable[ModelReply]]
"""Asks the cell's model, charged to the lane `detector`; only while a decision is awaited."""


async def nobody_to_ask(messages: Messages) -> ModelReply:
    """The model of a cell that gives its detectors none."""
    return ModelReply(None, error="there is no model to ask")


@dataclass(frozen=True)
class SessionFacts:
    """What a watcher may know of the cell when it is opened."""

    key: str
    attempt_root: Path
    started_mono: float
    detectors: Mapping[str, Any]
    ask: AskModel = nobody_to_ask


@dataclass(frozen=True)
class CompletedTurn:
    """A turn whose results are known: the trace rows since the last decision, and the prefix that ends with them."""

    turn: int
    rows: Sequence[Mapping[str, Any]]
    prefix_length: int
    prefix_sha256: str


class TurnWatcher(Protocol):
    """Decides between turns. Lives in the gateway process; whatever runs detectors is a child of it."""

    async def on_turn_complete(self, turn: CompletedTurn) -> Decision:
        """The decision about a turn."""

    async def close(self) -> None:
        """The session ends."""


async def open_watcher(facts: SessionFacts, factory: str = _FACTORY) -> TurnWatcher | None:
    """The watcher of a cell; None when it has no detectors. UsageError when the detectors cannot be opened."""
    if not facts.detectors:
        return None
    module, _, function = factory.partition(":")
    try:
        opened = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"detectors {sorted(facts.detectors)} were asked for; they cannot be opened: {error}"
        ) from error
    watcher: TurnWatcher = await opened(facts)
    return watcher


async def decide(
    watcher: TurnWatcher, turn: CompletedTurn, deadline_s: float = DEADLINE_S
) -> tuple[Decision, str | None]:
    """The watcher's decision, or `none` and what went wrong."""
    try:
        async with asyncio.timeout(deadline_s):
            return await watcher.on_turn_complete(turn), None
    except TimeoutError:
        return NOTHING, f"no decision about turn {turn.turn} within {deadline_s:g} s"
    except Exception as error:  # noqa: BLE001 (a watcher's fault must not end the harness's run)
        return NOTHING, f"decision about turn {turn.turn}: {type(error).__name__}"
