"""The report as a person meets it: opened from a file in a real browser, sorted, filtered, walked by keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scoring.report.analysis import analyse
from scoring.report.page import page as report_page
from tests.scoring.report.chromium import Page, browser
from tests.scoring.report.synthetic import Synthetic, contents, plan
from tests.scoring.report.test_page import HOSTILE

pytestmark = pytest.mark.browser

ROWS = "[...document.querySelectorAll('#cell-table tbody tr')]"
COUNT = "document.getElementById('cell-count').textContent"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def write(directory: Path, wanted: Synthetic) -> str:
    found = contents(wanted)
    path = directory / "report.html"
    path.write_bytes(report_page(found, analyse(found, plan(wanted))))
    return path.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A study of 240 cells with one that is contaminated and one without a result."""
    tasks = tuple(f"task {number:03d}" for number in range(60))
    return write(tmp_path_factory.mktemp("report"), Synthetic(tasks=tasks, contaminated=1, missing=1))


@pytest.fixture
def opened(chromium: Page, address: str) -> Page:
    chromium.open("about:blank")
    chromium.look()
    chromium.requests.clear()
    chromium.complaints.clear()
    chromium.open(address)
    return chromium


def column(page: Page, key: int) -> list[str]:
    found: list[str] = page.run(f"{ROWS}.map((row) => row.children[{key}].textContent)")
    return found


def test_it_loads_from_a_file_with_no_request_and_no_complaint(opened: Page, address: str) -> None:
    assert opened.run(COUNT) == "239 of 239 cells"
    assert opened.requests == [address]
    assert opened.complaints == []


def test_a_number_leads_to_its_cells(opened: Page) -> None:
    target = "#arms table a[href*='verdict=resolved'][href*='arm=treatment']"
    opened.run(f'[...document.querySelectorAll("{target}")].at(-1).click()')
    assert opened.run(COUNT).endswith("of 239 cells: arm treatment, verdict resolved")
    assert set(column(opened, 1)) == {"treatment"}
    assert set(column(opened, 4)) == {"resolved"}
    opened.run("document.querySelector('#comparisons a[href*=\"set=1-up\"]').click()")
    up = int(opened.run("document.querySelector('#comparisons a[href*=\"set=1-up\"]').textContent"))
    assert opened.run(COUNT).startswith(f"{4 * up - 1} of 239 cells") or opened.run(COUNT).startswith(f"{4 * up} of")
    assert len(set(column(opened, 0))) > 1


def test_a_mark_of_a_figure_has_its_words_and_leads_to_cells(opened: Page) -> None:
    title = "document.querySelector('#arms svg a').getAttribute('aria-label')"
    words = opened.run(title)
    assert "cells of 120" in words
    assert opened.run("document.querySelector('#arms svg a').parentNode.querySelector('title').textContent") == words
    opened.click("#arms svg a")
    assert opened.run("location.hash").startswith("#cells?arm=")


def test_filters_search_and_reset(opened: Page) -> None:
    opened.run(
        "(() => { const one = document.querySelector('select[data-key=contaminated]'); one.value = 'yes';"
        " one.dispatchEvent(new Event('change')); })()"
    )
    assert opened.run(COUNT) == "1 of 239 cells: contaminated yes"
    opened.run("[...document.querySelectorAll('#cell-filters button')].at(-1).click()")
    opened.run(
        "(() => { const one = document.querySelector('#cell-filters input'); one.value = 'TASK 007';"
        " one.dispatchEvent(new Event('input')); })()"
    )
    assert set(column(opened, 0)) == {"task 007"}
    assert opened.run(COUNT).startswith("4 of 239 cells")


def test_sorting_by_keys_alone_and_unknown_stands_last(opened: Page) -> None:
    opened.run("document.querySelector('#cell-table thead th:nth-child(13) button').focus()")
    opened.key("Enter", 13, "\r")
    assert opened.run("document.activeElement.textContent") == "cost ▴"
    costs = [float(one) for one in column(opened, 12)]
    assert costs == sorted(costs)
    opened.key("Enter", 13, "\r")
    assert opened.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    costs = [float(one) for one in column(opened, 12)]
    assert costs == sorted(costs, reverse=True)


def test_every_control_and_every_figure_part_is_reached_by_tab(opened: Page) -> None:
    reachable = (
        "[...document.querySelectorAll('a[href], button, input, select, summary')].filter((e) => e.tabIndex >= 0)"
    )
    everything = "document.querySelectorAll('a, button, input, select, summary').length"
    assert opened.run(f"{reachable}.length + document.querySelectorAll('svg a').length") >= opened.run(everything)
    opened.key("Tab", 9)
    assert opened.run("document.activeElement.tagName") == "A"


def test_pages_of_a_long_table(opened: Page) -> None:
    assert len(column(opened, 0)) == 100
    opened.run("document.querySelector('#cell-pages button:last-child').click()")
    opened.run("document.querySelector('#cell-pages button:last-child').click()")
    assert len(column(opened, 0)) == 39
    assert opened.run("document.querySelector('#cell-pages span').textContent") == "page 3 of 3"


def test_only_tasks_that_differ(opened: Page) -> None:
    shown = "[...document.querySelectorAll('.matrix tbody tr')].filter((row) => row.offsetParent).length"
    before, ties = opened.run(shown), opened.run("document.querySelectorAll('.matrix tr.tie').length")
    opened.run("document.getElementById('only-discordant').click()")
    assert (before, opened.run(shown)) == (60, 60 - ties)
    assert ties > 0


def test_dark_is_dark_and_paper_is_white(opened: Page) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    assert opened.run(colour) == "rgb(255, 255, 255)"
    opened.look(scheme="dark")
    assert opened.run(colour) == "rgb(20, 24, 29)"
    opened.look(scheme="dark", media="print")
    assert opened.run(colour) == "rgb(255, 255, 255)"
    opened.look()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out_from_the_page(opened: Page, scheme: str) -> None:
    """WCAG 2.2: text 4.5 to 1, marks of figures 3 to 1 against the page."""
    opened.look(scheme=scheme)
    contrast = """(() => {
      const style = getComputedStyle(document.documentElement);
      const light = (name) => {
        const hex = style.getPropertyValue(name).trim().slice(1);
        const part = (at) => { const v = parseInt(hex.slice(at, at + 2), 16) / 255;
          return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
        return 0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4);
      };
      const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const names = ["--ink", "--muted", "--link", "--serious", ...Array.from({ length: 12 }, (_, n) => `--c${n + 1}`)];
      return Object.fromEntries(names.map((name) => [name, ratio(light(name), light("--paper"))]));
    })()"""
    found: dict[str, float] = opened.run(contrast)
    for name, ratio in found.items():
        assert ratio >= (3.0 if name.startswith("--c") else 4.5), (name, ratio)
    opened.look()


def test_it_goes_on_paper(opened: Page) -> None:
    assert opened.printed().startswith(b"%PDF")
    assert opened.complaints == []


def test_a_narrow_window_does_not_scroll_sideways(opened: Page) -> None:
    opened.ask("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
    try:
        assert opened.run("document.documentElement.scrollWidth") <= 400
    finally:
        opened.ask("Emulation.clearDeviceMetricsOverride")


def test_hostile_names_do_nothing(chromium: Page, tmp_path: Path) -> None:
    hostile = write(tmp_path, Synthetic(tasks=HOSTILE, arms=HOSTILE[:3], samples=1, study=HOSTILE[0]))
    chromium.requests.clear()
    chromium.complaints.clear()
    chromium.open(hostile)
    assert chromium.requests == [hostile]
    assert chromium.complaints == []
    assert chromium.run("document.querySelectorAll('script').length") == 2
    assert chromium.run("document.querySelector('h1').textContent") == HOSTILE[0]
    assert chromium.run("document.querySelectorAll('#cell-table tbody *:not(tr, th, td)').length") == 0
    chromium.run("document.querySelector('.matrix tbody a').click()")
    assert chromium.run(COUNT).startswith("3 of 24 cells")
