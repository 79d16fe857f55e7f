"""Sequences: numbers of attempts, verifications, scores and replays, each kind and scope for itself, never reused.

Rules (30-evidence 7, 8, 9, 37):
1. A number is taken by creating its marker below `locks/sequences/`; EEXIST means the next one. The marker stays for
   ever,
   also when the unit is lost, quarantined or purged.
2. Sequences are independent: attempt a003 and verification v003 have nothing to do with each other; records are
   joined by digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cells.evidence.fs import FileSystem, create_durable, make_directories
from cells.evidence.fs_real import REAL

_NUMBER = re.compile(r"(\d{3,})$")


@dataclass(frozen=True)
class Category:
    """A kind of numbered unit: its folder, the letter before its number, and the first number that is given."""

    folder: str
    letter: str
    first: int = 1

    def name(self, number: int) -> str:
        """`a001`"""
        return f"{self.letter}{number:03d}"


ATTEMPT = Category("attempts", "a")
VERIFICATION = Category("verifications", "v", first=2)
"""The first verification and score of an attempt lie in its bundle: later ones start at 2."""
SCORE = Category("scores", "s", first=2)
REPLAY = Category("replays", "r")
CATEGORIES = (ATTEMPT, VERIFICATION, SCORE, REPLAY)


def allocate(study: Path, scope: str, category: Category, taken: Iterable[str] = (), fs: FileSystem = REAL) -> str:
    """The next name of a sequence, for ever ours. `scope` is a path below the study; `taken` are names known from
    elsewhere."""
    markers = study / "locks" / "sequences" / scope / category.folder
    make_directories(fs, markers)
    tree = fs.tree(markers)
    try:
        names = [entry.name for entry in tree.entries()]
    finally:
        tree.close()
    number = max([category.first - 1, *numbers(category, (*names, *taken))]) + 1
    while True:
        try:
            create_durable(fs, markers / category.name(number), b"")
        except FileExistsError:
            number += 1
            continue
        fs.sync_directory(markers)
        return category.name(number)


def numbers(category: Category, names: Iterable[str]) -> list[int]:
    """The numbers among names (or paths that end in one) that belong to a category."""
    found: list[int] = []
    for name in names:
        last = name.rpartition("/")[2]
        match = _NUMBER.search(last)
        if match and last == category.letter + match[1]:
            found.append(int(match[1]))
    return found
