"""Answers that the gateway gives itself, in the form that a client of the protocol expects of an error.

Statuses: 400 for a request that is wrong or too long, 403 for a limit (clients do not retry it), 404, 413, 408, 415,
502 and 504 for faults of the provider. The texts of context errors are those that harnesses look for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cells.recording.wire import Protocol

_TYPES = {400: "invalid_request_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large"}


@dataclass(frozen=True)
class Refusal:
    """A refused request: status, a stable word for the record, a text for people."""

    status: int
    kind: str
    message: str

    def body(self, protocol: Protocol | None) -> bytes:
        """The JSON error of the protocol."""
        return json.dumps(_messages(self) if protocol == "anthropic-messages" else _openai(self)).encode()


def _openai(refusal: Refusal) -> dict[str, Any]:
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.kind}}


def _messages(refusal: Refusal) -> dict[str, Any]:
    kind = _TYPES.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}}


def too_long(tokens: int, limit: int, protocol: Protocol) -> Refusal:
    """The protocol's own context-length error."""
    if protocol == "anthropic-messages":
        return Refusal(400, "context_length_exceeded", f"prompt is too long: {tokens} tokens > {limit} maximum")
    text = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} tokens."
        " Please reduce the length of the messages."
    )
    return Refusal(400, "context_length_exceeded", text)
