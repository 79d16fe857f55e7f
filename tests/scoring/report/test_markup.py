"""Markup is safe by construction: whatever a name holds, the page shows it as text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from urllib.parse import parse_qs

from hypothesis import given
from hypothesis import strategies as st

from scoring.report.markup import cells_target, element, embedded_json, join, trusted


class Read(HTMLParser):
    """What a browser makes of markup: tags, attributes and text."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.said += data


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_text_and_attributes_come_back_as_they_were(name: str) -> None:
    read = Read(element("p", name, title=name))
    assert read.tags == ["p"]
    shown = name if name.isprintable() else None
    if shown is not None:
        assert (read.said, read.attributes) == (shown, [("title", shown)])


@given(st.text())
def test_no_text_makes_an_element(name: str) -> None:
    assert Read(join(element("p", name), name)).tags == ["p"]


@given(st.dictionaries(st.text(), st.text()))
def test_json_in_a_page_cannot_end_its_element(document: dict[str, str]) -> None:
    encodable = json.loads(json.dumps(document).encode("utf-8", "replace"))
    markup = embedded_json(encodable, "data")
    inner = markup.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert not set(inner) & set("<>&\u2028\u2029")
    assert json.loads(inner) == encodable


def test_control_characters_and_changes_of_direction_are_made_visible() -> None:
    assert element("p", "a\x1b[31m\u202eb") == r"<p>a\x1b[31m\u202eb</p>"


def test_what_was_made_here_is_kept() -> None:
    assert element("p", trusted("<b>x</b>"), None, 3) == "<p><b>x</b>3</p>"


@given(st.lists(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])), min_size=1))
def test_a_link_chooses_the_cells_by_their_names(names: list[str]) -> None:
    target = cells_target({"task": names})
    chosen = parse_qs(target.removeprefix("#cells?"), keep_blank_values=True)
    assert chosen["task"] == names
