"""Names that users and other tools gave, safe to print: no control characters in a terminal, no mark-up in a page."""

from __future__ import annotations

_MARKED = "\\|<`*[]"


def printable(text: str) -> str:
    """The text with every character that is not printable written as its escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def markdown(text: str) -> str:
    """Printable text that Markdown shows as it is."""
    return "".join(f"\\{each}" if each in _MARKED else each for each in printable(text))
