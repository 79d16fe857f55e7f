"""The three protocols that harnesses speak: `read_request(document)`, `read_reply(document)`, `read_stream(body)`
each."""

from __future__ import annotations

from cells.recording.protocols import chat, messages, responses
from cells.recording.views import ReplyView, RequestView, Unreadable, parse_document
from cells.recording.wire import Protocol

_REQUESTS = {
    "openai-chat": chat.read_request,
    "openai-responses": responses.read_request,
    "anthropic-messages": messages.read_request,
}
_REPLIES = {
    "openai-chat": chat.read_reply,
    "openai-responses": responses.read_reply,
    "anthropic-messages": messages.read_reply,
}
_STREAMS = {
    "openai-chat": chat.read_stream,
    "openai-responses": responses.read_stream,
    "anthropic-messages": messages.read_stream,
}


def read_request(protocol: Protocol, body: bytes) -> RequestView:
    """The view of a request. `Unreadable` when the body is not one of this protocol."""
    return _REQUESTS[protocol](parse_document(body))


def read_reply(protocol: Protocol, body: bytes, *, streamed: bool) -> ReplyView:
    """The view of a reply with status 200. `Unreadable` when the body is not one of this protocol."""
    return _STREAMS[protocol](body) if streamed else _REPLIES[protocol](parse_document(body))


__all__ = ["Unreadable", "read_reply", "read_request"]
