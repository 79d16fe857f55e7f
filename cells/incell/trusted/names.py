"""File names as text: bytes outside of plain printable ASCII are percent-encoded, so that every name has exactly one
form in JSON and lists."""

from __future__ import annotations

_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b"%\\")
_TABLE = [chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in range(256)]


def encode_name(name: bytes) -> str:
    """Percent-encoded form of a name or path; `/` stays."""
    return "".join([_TABLE[byte] for byte in name])


def decode_name(text: str) -> bytes:
    """The bytes of an encoded name; ValueError when it is not one (this rejects every second spelling of a name)."""
    out = bytearray()
    position = 0
    while position < len(text):
        if text[position] == "%":
            out.append(int(text[position + 1 : position + 3], 16))
            position += 3
        else:
            out.append(ord(text[position]))
            position += 1
    name = bytes(out)
    if encode_name(name) != text:
        raise ValueError(f"not an encoded name: {text!r}")
    return name
