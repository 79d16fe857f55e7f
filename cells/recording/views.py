"""What a request and a reply say, in one form for all three protocols: the only form that lanes, trace, transcript and
usage know.

Rules:
1. A view is a pure function of the bytes; what cannot be read is an `Unreadable` with a reason, never a guess.
2. `items` are the conversation's elements in order, as the cell sent them; a reply is over at `finish`, not at the end
   of the bytes.
3. An exit status is taken from a field of a result, never from text (25-formats).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from cells.recording.loose_json import NoJson, loose_digest, parse
from cells.recording.wire import ErrorNote, Protocol, Usage

_EXIT_FIELDS = ("exit_status", "exit_code", "returncode")
_COMPLEX = 600_000
"""Most commas and brackets that a document may have before it is parsed: parsing more would hold up every other
cell."""


class Unreadable(Exception):
    """A body that is not what its protocol says; the text names what was expected and found."""


@dataclass(frozen=True)
class ToolCall:
    """A call in a reply. `arguments` is the text as the model gave it (JSON where the protocol has an object)."""

    id: str | None
    name: str
    arguments: str


@dataclass(frozen=True)
class ToolResult:
    """A result in a request. `is_error` and `exit_status` are null where the harness gives no such field."""

    call_id: str | None
    text: str
    digest: str
    is_error: bool | None
    exit_status: int | None


@dataclass(frozen=True)
class RequestView:
    """A model request. `fresh` is the index of the first item after the last one that a model said."""

    protocol: Protocol
    model: str | None
    stream: bool
    system_digest: str
    tools_digest: str
    tools: tuple[str, ...]
    items: tuple[Any, ...]
    fresh: int
    results: tuple[ToolResult, ...]
    last_text: str
    settings: dict[str, Any]
    """Everything in the request but its items."""
    _digests: dict[int, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def carries_tools(self) -> bool:
        return bool(self.tools)

    def item_digest(self, index: int) -> str:
        """Digest of one item, markers for prompt caches left out because they move from turn to turn."""
        if index not in self._digests:
            self._digests[index] = loose_digest(_without_cache_marks(self.items[index]))
        return self._digests[index]

    def settings_digest(self) -> str:
        """Digest of everything but the items."""
        rest = {name: value for name, value in self.settings.items() if name != "tools"}
        return loose_digest([rest, self.tools_digest])


@dataclass(frozen=True)
class ReplyView:
    """A model reply. `finish` is the protocol's own word, null when the reply did not reach its end."""

    text: str
    reasoning_chars: int
    calls: tuple[ToolCall, ...]
    finish: str | None
    usage: Usage | None
    model: str | None
    error: ErrorNote | None

    @property
    def cut_by_length(self) -> bool:
        return self.finish in ("length", "max_tokens", "max_output_tokens")


def parse_document(body: bytes) -> dict[str, Any]:
    """The JSON object in a body. `Unreadable` for anything else, too deep or too complex."""
    if len(body) > 1 << 20 and sum(body.count(mark) for mark in (b",", b"[", b"{")) > _COMPLEX:
        raise Unreadable(f"expected a JSON object; found more than {_COMPLEX} elements")
    try:
        document = parse(body)
    except NoJson as error:
        raise Unreadable(f"expected a JSON object; found {error}") from error
    if not isinstance(document, dict):
        raise Unreadable(f"expected a JSON object; found {type(document).__name__}")
    return document


def _without_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_cache_marks(part) for key, part in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [_without_cache_marks(part) for part in value]
    return value


def result_of(call_id: Any, content: Any, is_error: Any = None) -> ToolResult:
    """A tool result from a protocol's fields."""
    text = text_of(content)
    return ToolResult(
        call_id=call_id if isinstance(call_id, str) else None,
        text=text,
        digest=loose_digest(content),
        is_error=is_error if isinstance(is_error, bool) else None,
        exit_status=_exit_status(text),
    )


def _exit_status(text: str) -> int | None:
    if not text.startswith("{") or len(text) > 1 << 20:
        return None
    try:
        fields = parse(text)
    except NoJson:
        return None
    for name in _EXIT_FIELDS:
        status = fields.get(name) if isinstance(fields, dict) else None
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def text_of(content: Any) -> str:
    """The text in a content field: a string, or the text of its blocks; other blocks are named in brackets."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_block_text(block) for block in content)
    return "" if content is None else json.dumps(content)


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict):
        text = block.get("text")
        return text if isinstance(text, str) else f"[{block.get('type', 'block')}]"
    return f"[{type(block).__name__}]"


def count(value: Any) -> int | None:
    """A token count from a provider: a non-negative integer, or null."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def known_usage(usage: Usage) -> Usage | None:
    """The usage when it tells anything."""
    return usage if any(part is not None for part in usage.model_dump().values()) else None


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def table(value: Any) -> dict[str, Any]:
    """The value when it is an object, else an empty one: for fields of untrusted documents."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The value when it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def settings_of(document: dict[str, Any], items: str) -> dict[str, Any]:
    """A request's document without its items."""
    return {key: value for key, value in document.items() if key != items}
