"""HTML that is safe by construction: text is escaped unless it was made here.

Rules:
1. `Html` is made by `element`, `join` and `trusted`; any other str is text, and is escaped where it becomes a child or
   an attribute.
2. JSON in a page holds no character that could end its element.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from scoring.statistics.printable import printable

_VOID = frozenset({"br", "col", "hr", "input", "meta", "wbr"})
_JSON_ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


class Html(str):
    """Markup that may stand in the page as it is."""

    __slots__ = ()


Child = str | int | None
"""`Html` is kept, other str is escaped, None is nothing."""


def trusted(markup: str) -> Html:
    """Markup of our own files and of the plotting library."""
    return Html(markup)


def text(value: Child) -> Html:
    """A child as markup; control characters and changes of direction are made visible."""
    if value is None:
        return Html("")
    return value if isinstance(value, Html) else Html(html.escape(printable(str(value)), quote=True))


def join(*children: Child) -> Html:
    """Children one after the other."""
    return Html("".join(map(text, children)))


def element(tag: str, *children: Child, **attributes: str | int | bool | None) -> Html:
    """One element. Attributes: a trailing underscore is dropped, other underscores are hyphens; False and None are left
    out, True has no value."""
    given = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{given}>")
    return Html(f"<{tag}{given}>{join(*children)}</{tag}>")


def table(header: Sequence[Child], rows: Iterable[Sequence[Child]], *, caption: str, classes: str = "") -> Html:
    """A table with a caption; the first cell of a row is its header. It scrolls by itself where it is too wide."""
    heads = join(*(element("th", head, scope="col") for head in header))
    body = join(*(element("tr", element("th", row[0], scope="row"), *_plain_cells(row[1:])) for row in rows))
    return element(
        "div",
        element(
            "table",
            element("caption", caption),
            element("thead", element("tr", heads)),
            element("tbody", body),
            class_=classes or None,
        ),
        class_="scroll",
        tabindex=0,
    )


def facts(pairs: Iterable[tuple[Child, Child]]) -> Html:
    """Names and values, one under the other."""
    return element("dl", *(join(element("dt", name), element("dd", value)) for name, value in pairs))


def cells_link(shown: Child, **filters: str | int | Sequence[str]) -> Html:
    """A link to the cells that these values of columns choose; several values of a column are alternatives."""
    return element("a", shown, href=cells_target(filters))


def cells_target(filters: Mapping[str, str | int | Sequence[str]]) -> str:
    """The address of chosen cells in the page."""
    shown = {name: _safe_values(given) for name, given in filters.items()}
    return f"#cells?{urlencode(shown, doseq=True, quote_via=quote, safe='')}"


def embedded_json(document: Any, name: str) -> Html:
    """A JSON document as an inert element of the page."""
    content = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Html(f'<script type="application/json" id="{html.escape(name)}">{content.translate(_JSON_ESCAPES)}</script>')


def _plain_cells(cells: Sequence[Child]) -> list[Html]:
    return [element("td", cell) for cell in cells]


def _attribute(name: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    key = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {key}"
    return f' {key}="{html.escape(printable(str(value)), quote=True)}"'


def _safe_values(given: str | int | Sequence[str]) -> list[str]:
    values = [str(given)] if isinstance(given, (str, int)) else given
    return [printable(value) for value in values]
