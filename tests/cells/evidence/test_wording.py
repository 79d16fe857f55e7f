"""The word for what one rename does is not given to anything else (30-evidence 5)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORD = re.compile(r"\batomic", re.IGNORECASE)
NEAR = re.compile(r"rename|publish|change", re.IGNORECASE)


@pytest.mark.requirement(5)
def test_only_a_single_rename_is_called_atomic() -> None:
    pages = [ROOT / "docs/evidence.md", ROOT / "docs/lifecycle.md", *(ROOT / "cells/evidence").rglob("*.py")]
    loose = [
        f"{page.relative_to(ROOT)}: {paragraph.strip()[:100]}"
        for page in pages
        for paragraph in re.split(r"\n\s*\n|(?<=\.)\n", page.read_text())
        if WORD.search(paragraph) and not NEAR.search(paragraph)
    ]
    assert loose == []
