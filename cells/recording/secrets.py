"""Secrets: finding a key in bytes that a cell or we wrote, as it is or as common encodings show it, and taking it out.

The value of a secret is never in a finding, a message or a log: a finding has its name, where and in which form.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

_SHORTEST = 8
"""A shorter value would be found everywhere; keys that providers give are longer."""


@dataclass(frozen=True)
class SecretFound:
    """A secret in some bytes: its name, the byte where it starts, the form it has there."""

    name: str
    offset: int
    form: str


def find_secrets(content: bytes, secrets: Mapping[str, str]) -> list[SecretFound]:
    """Every place where a secret stands, in order. Values shorter than 8 characters are not looked for."""
    found = [
        SecretFound(name, offset, form)
        for name, value in secrets.items()
        for form, needle in forms(value)
        for offset in _places(content, needle)
    ]
    return sorted(set(found), key=lambda item: (item.offset, item.name, item.form))


def scrub(content: bytes, secrets: Mapping[str, str]) -> bytes:
    """The bytes with every form of every secret replaced by `[removed:NAME]`."""
    for name, value in secrets.items():
        for _, needle in forms(value):
            content = content.replace(needle, f"[removed:{name}]".encode())
    return content


def forms(value: str) -> list[tuple[str, bytes]]:
    """The forms in which a value is looked for: plain, JSON-escaped, URL-quoted, hexadecimal, base64 at each of three
    alignments."""
    if len(value) < _SHORTEST:
        return []
    plain = value.encode("utf-8", "surrogateescape")
    shown = {"plain": plain, "json": json.dumps(value)[1:-1].encode(), "url": quote(value, safe="").encode()}
    shown["hex"] = plain.hex().encode()
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + plain)
        shown[f"base64+{shift}"] = coded[(0, 2, 3)[shift] : len(coded) - (0, 4, 4)[-(shift + len(plain)) % 3]]
    distinct: dict[bytes, str] = {}
    for form, needle in shown.items():
        distinct.setdefault(needle, form)
    return [(form, needle) for needle, form in distinct.items()]


def _places(content: bytes, needle: bytes) -> Iterator[int]:
    at = content.find(needle)
    while at >= 0:
        yield at
        at = content.find(needle, at + 1)
