"""The manual: every link leads somewhere, every command of the README is one that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "infra").rglob("*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"(?:^|`)assay ([a-z]+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_shows_exists(page: Path) -> None:
    shown = set(_COMMAND.findall(page.read_text()))
    known = {name for name in COMMANDS if (ROOT / "flows" / "cli" / f"{name}.py").exists()}
    assert shown <= known, f"{sorted(shown - known)} are not commands"
