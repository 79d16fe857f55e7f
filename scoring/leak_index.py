"""What in a verifier pack would be a leak if a cell read it: distinctive lines, names of hidden tests, the pack
marker. Pure.

Rules (25-formats, "Leak scan"):
1. A line counts with 30 characters or more, blanks at its ends apart, if neither the base tree nor the prompt holds it.
2. A test's name counts with 8 characters or more, as a whole word, under the same condition.
3. The pack marker is a GUID planted in sealed files as `assay-pack-marker: <guid>`; it counts wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scoring.pack import VerifierPack

LINE_LENGTH = 30
NAME_LENGTH = 8
_MARKER = re.compile(rb"assay-pack-marker:\s*([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_WORD = re.compile(r"\w+")
_START = re.compile(r"(?<![A-Za-z0-9_])(?=\S)")
_MAX_LINES = 20_000


@dataclass(frozen=True)
class LeakIndex:
    """What to look for: line -> where it is sealed, by its first characters; names; markers."""

    lines: dict[str, dict[str, str]]
    """first 30 characters -> {line: sealed path}"""
    names: dict[str, str]
    markers: dict[str, str]

    def find(self, text: str) -> Iterator[tuple[str, str, str]]:
        """(kind, what, sealed path) of everything that a text holds, each once."""
        found: set[str] = set()
        for marker, path in self.markers.items():
            if marker in text.lower():
                yield "pack_marker", marker, path
        for word in _WORD.findall(text):
            if word in self.names and word not in found:
                found.add(word)
                yield "hidden_test_name", word, self.names[word]
        for match in _START.finditer(text):
            start = match.start()
            for line, path in self.lines.get(text[start : start + LINE_LENGTH], {}).items():
                if line not in found and text.startswith(line, start):
                    found.add(line)
                    yield "sealed_line", line, path


def build_index(
    pack: VerifierPack, gold: bytes, tests: Iterable[str], public: Iterable[bytes], prompt: bytes
) -> LeakIndex:
    """The index of a task. `public` are the contents of the base tree's files, `gold` is the gold patch."""
    lines = dict(_lines_of_pack(pack, gold))
    names = dict.fromkeys(_names(tests), "task.toml") | _names_of_files(pack)
    markers = {
        match[1].decode("ascii").lower(): file.path.decode("utf-8", "replace")
        for file in (*pack.tests, *pack.beside)
        for match in _MARKER.finditer(file.content)
    }
    for content in (*public, prompt):
        text = content.decode("utf-8", "replace")
        for line in text.split("\n"):
            lines.pop(line.strip(), None)
        if names:
            for word in set(_WORD.findall(text)) & names.keys():
                names.pop(word)
    by_start: dict[str, dict[str, str]] = {}
    for line, path in list(lines.items())[:_MAX_LINES]:
        by_start.setdefault(line[:LINE_LENGTH], {})[line] = path
    return LeakIndex(by_start, names, markers)


def _lines_of_pack(pack: VerifierPack, gold: bytes) -> Iterator[tuple[str, str]]:
    for file in (*pack.tests, *pack.beside):
        if b"\0" not in file.content[:8000]:
            yield from _distinctive(file.content.split(b"\n"), file.path.decode("utf-8", "replace"))
    added = [line[1:] for line in gold.split(b"\n") if line.startswith(b"+") and not line.startswith(b"+++")]
    yield from _distinctive(added, "gold.patch")


def _distinctive(lines: Iterable[bytes], path: str) -> Iterator[tuple[str, str]]:
    for line in lines:
        text = line.decode("utf-8", "replace").strip()
        if len(text) >= LINE_LENGTH:
            yield text, path


def _names(tests: Iterable[str]) -> Iterator[str]:
    for test in tests:
        for word in _WORD.findall(test.rpartition("::")[2].split("[")[0]):
            if len(word) >= NAME_LENGTH:
                yield word


def _names_of_files(pack: VerifierPack) -> dict[str, str]:
    """Stems of hidden test files, as `test_parser_rules`."""
    found = {}
    for file in pack.tests:
        stem = file.path.rpartition(b"/")[2].split(b".")[0].decode("utf-8", "replace")
        if len(stem) >= NAME_LENGTH and "test" in stem.lower() and _WORD.fullmatch(stem):
            found[stem] = file.path.decode("utf-8", "replace")
    return found
