"""The page: one file that loads nothing, the same bytes for the same evidence, small, safe with any name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from scoring.report.analysis import analyse
from scoring.report.cells import cells_document
from scoring.report.contents import StudyContents
from scoring.report.markdown import report_markdown
from scoring.report.page import page
from tests.scoring.report.synthetic import Synthetic, contents, plan
from tests.scoring.report.test_markup import Read

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '" onload="alert(3)',
    "$\\frac{1}{0}$",
    "javascript:alert(4)",
    "\u202egnp.exe\x00\x1b[2J",
    "\ud800 alone",
    "]]><!--",
)
SECTIONS = ("comparisons", "arms", "tasks", "spending", "time", "drift", "reliability", "provenance", "cells")


def made(wanted: Synthetic) -> tuple[StudyContents, Any]:
    found = contents(wanted)
    return found, None if wanted.blind else analyse(found, plan(wanted))


@pytest.fixture(scope="module")
def ordinary() -> str:
    return page(*made(Synthetic(missing=1, contaminated=1))).decode()


def test_every_section_is_there_and_can_be_reached(ordinary: str) -> None:
    for section in SECTIONS:
        assert f'<section id="{section}">' in ordinary
        assert f'href="#{section}"' in ordinary


def test_nothing_in_the_page_is_loaded_from_anywhere(ordinary: str) -> None:
    assert "default-src &#x27;none&#x27;" in ordinary
    addresses = re.findall(r'(?:href|src|action|data|poster)="([^"]*)"', ordinary)
    assert addresses and all(address.startswith("#") for address in addresses)
    assert "@import" not in ordinary and "url(http" not in ordinary
    assert set(re.findall(r"https?://[^\"'\s<]+", ordinary)) == {"http://www.w3.org/2000/svg"}


def test_links_lead_to_places_that_exist(ordinary: str) -> None:
    ids = set(re.findall(r'\sid="([^"]+)"', ordinary))
    for address in set(re.findall(r'href="#([^"?]+)', ordinary)):
        assert address in ids, address


def test_ids_are_unique_outside_the_shapes_of_figures(ordinary: str) -> None:
    ids = re.findall(r'\sid="([^"]+)"', ordinary)
    assert len(ids) == len(set(ids)), sorted({one for one in ids if ids.count(one) > 1})[:5]


def test_the_same_evidence_gives_the_same_bytes() -> None:
    wanted = Synthetic(tasks=("a", "b", "c"))
    assert page(*made(wanted)) == page(*made(wanted))


def test_hostile_names_stay_text() -> None:
    wanted = Synthetic(
        tasks=HOSTILE, arms=HOSTILE[:3], samples=1, study="<b>study</b>", withheld={HOSTILE[1]: HOSTILE[2]}
    )
    text = page(*made(wanted)).decode()
    read = Read(text)
    assert read.tags.count("script") == 2  # the data and the page's own
    assert "img" not in read.tags
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert all(
        value is None or not value.startswith("javascript:") for name, value in read.attributes if name != "title"
    )
    assert "\x1b" not in text and "\u202e" not in text


def test_hostile_names_stay_text_in_markdown() -> None:
    text = report_markdown(*made(Synthetic(tasks=HOSTILE, samples=1)))
    assert "<img" not in text.replace("\\<img", "")
    assert "<script" not in text.replace("\\<script", "")


def test_a_blind_page_shows_nothing_of_verdicts() -> None:
    text = page(*made(Synthetic(blind=True))).decode()
    assert "Verdicts are hidden" in text
    assert '<section id="comparisons">' not in text and '<section id="tasks">' not in text
    data = json.loads(re.findall(r'id="cell-data">(.*?)</script>', text)[0])
    columns = {column["key"]: column for column in data["columns"]}
    assert columns["verdict"]["words"] == [] and columns["reason"]["words"] == []
    assert set(columns["verdict"]["codes"]) == {-1}


def test_a_study_without_any_result_still_has_a_page() -> None:
    found = contents(Synthetic(arms=("control",), missing=24))
    text = page(found, analyse(found, plan(Synthetic(arms=("control",))))).decode()
    assert "No claim" in text and "0 of 24 with an accepted attempt" in text


def test_five_thousand_cells_stay_below_three_megabytes() -> None:
    tasks = tuple(f"organisation__repository-{number:05d}" for number in range(625))
    wanted = Synthetic(tasks=tasks, arms=("control", "one", "two", "three"), samples=2)
    found = contents(wanted)
    assert len(found.rows) == 5000
    assert len(page(found, analyse(found, plan(wanted)))) < 3_000_000


def test_unknown_numbers_are_null_in_the_table_and_never_zero() -> None:
    row = dict(contents().rows[0]) | {"cost": None, "turns": None, "contaminated": None, "f2p_fraction": None}
    columns = {column["key"]: column for column in cells_document([row], {})["columns"]}
    assert [columns[key]["numbers"] for key in ("cost", "turns", "f2p_fraction")] == [[None]] * 3
    assert columns["contaminated"]["codes"] == [-1]


def test_markdown_holds_claim_comparisons_arms_and_evidence() -> None:
    text = report_markdown(*made(Synthetic()))
    for part in (
        "**treatment is higher",
        "### Comparisons",
        "| task | control | treatment |",
        "### Arms",
        "ledger head",
    ):
        assert part in text
