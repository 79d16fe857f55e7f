"""Routes: what a request's path means, which provider speaks which protocol, and which pairs are refused before a run.

Rule: a request is passed on in the protocol in which it came. No pair of protocols can be translated without loss
(thinking blocks, cache marks, item ids, stop reasons and streaming events differ), so every such pair is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from cells.recording.wire import Protocol

Local = Literal["models", "props", "slots", "health"]

PROVIDER_PROTOCOLS: dict[str, frozenset[Protocol]] = {
    "openai": frozenset(("openai-chat", "openai-responses")),
    "anthropic": frozenset(("anthropic-messages",)),
    "scripted": frozenset(get_args(Protocol)),
    "replay": frozenset(get_args(Protocol)),
}

_MODEL_PATHS: dict[str, Protocol] = {
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
    "/messages": "anthropic-messages",
}
_LOCAL_PATHS: dict[str, Local] = {
    "/props": "props",
    "/slots": "slots",
    "/models": "models",
    "/health": "health",
    "/": "health",
}


@dataclass(frozen=True)
class Route:
    """`model`: a model call. `local`: the gateway answers itself. `side`: passed on, no model call. Neither: not
    found."""

    protocol: Protocol | None = None
    local: Local | None = None
    side: Protocol | None = None
    model_id: str | None = None
    path: str = ""
    """The path below the provider's base URL."""


def route(method: str, path: str) -> Route:
    """The route of a request; with or without `/v1`, as clients add it or not."""
    short = path.removeprefix("/v1") or "/"
    if method == "POST" and short in _MODEL_PATHS:
        return Route(protocol=_MODEL_PATHS[short], path=short)
    if method == "POST" and short == "/messages/count_tokens":
        return Route(side="anthropic-messages", path=short)
    if method in ("GET", "HEAD"):
        if short in _LOCAL_PATHS:
            return Route(local=_LOCAL_PATHS[short], path=short)
        if short.startswith("/models/"):
            return Route(local="models", model_id=short.removeprefix("/models/"), path=short)
    return Route(path=short)


def check_route(harness_protocols: Iterable[str], provider: str) -> str | None:
    """Why a harness that speaks one of these protocols cannot use the provider; None when it can."""
    asked = tuple(harness_protocols)
    spoken = PROVIDER_PROTOCOLS.get(provider)
    if spoken is None:
        return f"provider {provider!r} is not known; there are {', '.join(sorted(PROVIDER_PROTOCOLS))}"
    if spoken.intersection(asked):
        return None
    return (
        f"the harness speaks {' or '.join(asked) or 'no protocol'}, the provider {provider!r} speaks"
        f" {' or '.join(sorted(spoken))}; requests are passed on as they are, because a translation would lose parts"
    )
