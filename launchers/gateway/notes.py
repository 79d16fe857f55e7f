"""Notes: a controller's text block put into a request's bytes, and put there again in every later request.

Rules:
1. The bytes around a note stay as they are: it is spliced in behind the item that ended the request it was decided for.
2. In the messages protocol it is a text block at the end of that user message; elsewhere a user message of its own.
3. A note whose place is gone (the harness rewrote its history) is not sent again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from cells.evidence.digest import digest_bytes, short
from cells.recording.views import RequestView
from cells.recording.wire import Note, Protocol
from launchers.gateway.decisions import MAX_NOTE

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},:]', re.DOTALL)
_LIST_KEY: dict[Protocol, bytes] = {
    "openai-chat": b'"messages"',
    "openai-responses": b'"input"',
    "anthropic-messages": b'"messages"',
}


@dataclass(frozen=True)
class _Placed:
    id: str
    text: str
    digest: str
    turn: int
    after: int
    anchor: str


@dataclass
class Notes:
    """The notes of a session's main lane."""

    placed: list[_Placed] = field(default_factory=list)

    def add(self, text: str, turn: int, view: RequestView) -> None:
        """Place a note behind the last item of the request that is about to be sent on."""
        kept = text[:MAX_NOTE]
        digest = digest_bytes(kept.encode("utf-8", "replace"))
        last = len(view.items) - 1
        name = f"note-{len(self.placed) + 1}-{short(digest, 8)}"
        self.placed.append(_Placed(name, kept, digest, turn, last, view.item_digest(last)))

    def apply(self, body: bytes, view: RequestView, first_turn: int | None) -> tuple[bytes, tuple[Note, ...]]:
        """The body with all notes that have their place, and which; `first_turn` is the turn whose note is new."""
        due = [
            note for note in self.placed if note.after < len(view.items) and view.item_digest(note.after) == note.anchor
        ]
        if not due:
            return body, ()
        spans = items_of(body, _LIST_KEY[view.protocol])
        if len(spans) != len(view.items):
            return body, ()
        edits = [_edit(body, spans[note.after], note.text, view.protocol) for note in due]
        for at, text in reversed(edits):
            body = body[:at] + text + body[at:]
        named = [
            Note(id=note.id, digest=note.digest, turn=note.turn, first=note.turn == first_turn, chars=len(note.text))
            for note in due
        ]
        return body, tuple(named)


def _edit(body: bytes, span: tuple[int, int], text: str, protocol: Protocol) -> tuple[int, bytes]:
    """Where in the body the note goes, in or behind the item of this span, and its bytes."""
    start, end = span
    if protocol == "anthropic-messages":
        blocks = items_of(body[start:end], b'"content"')
        if blocks:
            return start + blocks[-1][1], b"," + _json({"type": "text", "text": text})
        return end, b"," + _json({"role": "user", "content": [{"type": "text", "text": text}]})
    if protocol == "openai-responses":
        content = [{"type": "input_text", "text": text}]
        return end, b"," + _json({"type": "message", "role": "user", "content": content})
    return end, b"," + _json({"role": "user", "content": text})


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def items_of(document: bytes, key: bytes) -> list[tuple[int, int]]:
    """Start and end of each element of the list under a key of a JSON object; empty when there is no such list.

    `key` is the JSON text of the name. Of a name given twice the last one counts, as it does for a JSON reader.
    """
    found: list[tuple[int, int]] = []
    tokens = [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(document)]
    depth = 0
    for index, (token, _, _) in enumerate(tokens):
        if depth == 1 and token == key and [item[0] for item in tokens[index + 1 : index + 3]] == [b":", b"["]:
            found = _elements(document, tokens[index + 2 :])
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
    return found


def _elements(document: bytes, tokens: list[tuple[bytes, int, int]]) -> list[tuple[int, int]]:
    """The elements of a list whose opening bracket is the first token."""
    spans: list[tuple[int, int]] = []
    depth, start = 0, tokens[0][2]
    for token, begin, end in tokens:
        if depth == 1 and token in (b",", b"]"):
            text = document[start:begin]
            if text.strip():
                spans.append((start + len(text) - len(text.lstrip()), start + len(text.rstrip())))
            start = end
        depth += (token in (b"{", b"[")) - (token in (b"}", b"]"))
        if depth == 0:
            break
    return spans
