"""JSON that a cell or a provider made: read with a fixed depth, written in one loose form.

Rules:
1. What is nested deeper than `DEPTH` is not read. The limit is ours, not the interpreter's stack, so that the same
   bytes are read the
   same way wherever the reader stands.
2. The loose form is sorted compact ASCII JSON; it exists for huge numbers and lone surrogates, which have no RFC 8785
   form.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

DEPTH = 100


class NoJson(ValueError):
    """The text is no JSON, or is nested too deeply."""


def parse(text: bytes | str) -> Any:
    """The value of a JSON text. `NoJson` says what was found."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise NoJson(f"nested deeper than {DEPTH}") from error
    except ValueError as error:
        raise NoJson(f"no JSON ({str(error)[:120]})") from error
    if _deeper_than(value, DEPTH):
        raise NoJson(f"nested deeper than {DEPTH}")
    return value


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        level = [
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
            if isinstance(part, (dict, list))
        ]
        if not level:
            return False
    return True


def compact(text: str) -> str:
    """The text without blanks and with escapes; as it is when it is no JSON."""
    try:
        return json.dumps(parse(text), separators=(",", ":"))
    except NoJson:
        return text


def loose_bytes(value: Any) -> bytes:
    """The loose form of a value that was read by `parse` or made by us."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def loose_digest(value: Any) -> str:
    """`sha256:<hex>` of the loose form."""
    return "sha256:" + hashlib.sha256(loose_bytes(value)).hexdigest()
