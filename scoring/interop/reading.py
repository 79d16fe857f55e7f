"""What all readers of other tools' files share: strict JSON, fields that know their file and place, rows of the table.

Rules:
1. A field is read with its type or refused by file and field; nothing is guessed, and what is not there is null.
2. NaN, infinities, negative or absurd counts, a key that stands twice in an object: refused.
3. A row names the bytes it is from: `bundle_sha256` is the digest of the other tool's file. So the same file given
   twice is one row, and two files under one identity are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from cells.errors import EvidenceError, InputFileError
from cells.evidence.digest import digest_bytes
from cells.evidence.files import read_regular
from scoring.columns import NAMES

Row = dict[str, Any]
MAX_BYTES = 1 << 30
_MAX_COUNT = 2**53
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_MONEY = Decimal(10) ** 20


@dataclass(frozen=True)
class Field:
    """A value of a file and where it stands. Every reading method raises InputFileError with file and field."""

    file: str
    name: str
    value: Any

    def refuse(self, message: str) -> NoReturn:
        """Say what is wrong here."""
        raise InputFileError(self.file, message, key=self.name or None)

    def at(self, key: str) -> Field:
        """A member of an object; its value is None where it is absent or null."""
        return Field(self.file, f"{self.name}.{key}" if self.name else key, self.members().get(key))

    def members(self) -> dict[str, Any]:
        """The object that must stand here."""
        if not isinstance(self.value, dict):
            self.refuse(f"expected an object, found {_kind(self.value)}")
        return self.value

    def object(self) -> Field:
        """The same where an object or nothing may stand: nothing is an empty object."""
        return Field(self.file, self.name, {}) if self.value is None else Field(self.file, self.name, self.members())

    def entries(self) -> Iterator[tuple[str, Field]]:
        """The members of an object in their order."""
        for key in self.members():
            yield Field(self.file, self.name, key).word(), self.at(key)

    def items(self) -> list[Field]:
        """The elements of the list that must stand here."""
        if not isinstance(self.value, list):
            self.refuse(f"expected a list, found {_kind(self.value)}")
        return [Field(self.file, f"{self.name}[{index}]", item) for index, item in enumerate(self.value)]

    def text(self) -> str | None:
        """A text, or None."""
        if self.value is not None and not isinstance(self.value, str):
            self.refuse(f"expected a text, found {_kind(self.value)}")
        if self.value and _SURROGATE.search(self.value):
            self.refuse("half a surrogate pair, which is no text")
        return self.value

    def word(self) -> str:
        """A text that must be there and say something."""
        return self.text() or self.refuse("expected a text that is not empty, found " + _kind(self.value))

    def flag(self) -> bool | None:
        """true, false or None."""
        if self.value is not None and not isinstance(self.value, bool):
            self.refuse(f"expected true or false, found {_kind(self.value)}")
        return self.value

    def count(self) -> int | None:
        """A whole number from 0, or None."""
        if self.value is None:
            return None
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.refuse(f"expected a whole number, found {_kind(self.value)}")
        if not 0 <= self.value <= _MAX_COUNT:
            self.refuse(f"expected a count from 0, found {str(self.value)[:40]}")
        return self.value

    def number(self) -> Decimal | None:
        """A finite number, exact, or None."""
        if self.value is None:
            return None
        if isinstance(self.value, bool) or not isinstance(self.value, int | Decimal | float):
            self.refuse(f"expected a number, found {_kind(self.value)}")
        number = Decimal(self.value)
        if not number.is_finite() or not math.isfinite(float(number)):
            self.refuse(f"expected a finite number, found {self.value}")
        return number

    def money(self) -> str | None:
        """An exact amount from 0 as decimal text, or None."""
        number = self.number()
        if number is None:
            return None
        if not 0 <= number < _MAX_MONEY:
            self.refuse(f"expected an amount from 0, found {number}")
        return format(number, "f")

    def seconds(self) -> float | None:
        """A duration from 0, in seconds, or None."""
        number = self.number()
        if number is not None and number < 0:
            self.refuse(f"expected a duration from 0, found {number}")
        return None if number is None else float(number)

    def moment(self) -> str | None:
        """A time with its zone, as RFC 3339 in UTC, or None."""
        text = self.text()
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.refuse(f"expected a time as RFC 3339, found {text[:60]!r}")
        if moment.tzinfo is None:
            self.refuse(f"expected a time with its zone, found {text[:60]!r}")
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")

    def distinct_words(self) -> list[str]:
        """A list of texts in which none stands twice."""
        words = [item.word() for item in self.items()]
        if len(set(words)) != len(words):
            self.refuse(f"{_twice(words)!r} stands twice")
        return words


def read_bytes(path: Path) -> bytes:
    """The bytes of a plain file. EvidenceError for anything else."""
    return read_regular(path, MAX_BYTES)


def file_digest(path: Path) -> str:
    """What `bundle_sha256` of the rows of a file is."""
    return digest_bytes(read_bytes(path))


def document(path: Path) -> Field:
    """The JSON object that a file is."""
    return document_of(read_bytes(path), str(path))


def document_of(content: bytes, file: str, name: str = "") -> Field:
    """The same from bytes; numbers with a point stay exact."""
    whole = Field(file, name, _value(content, file, name))
    whole.members()
    return whole


def json_lines(path: Path) -> Iterator[Field]:
    """The objects of a file with one a line; empty lines are passed over."""
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        if line.strip():
            yield document_of(line, str(path), f"line {number}")


def foreign_row(**known: Any) -> Row:
    """A row of the cells table from what is known; every other column is null."""
    unknown = known.keys() - set(NAMES)
    if unknown:
        raise EvidenceError(f"not columns of the cells table: {', '.join(sorted(unknown))}")
    return dict.fromkeys(NAMES) | known


def refuse_repeated(rows: Iterable[Row], file: str, key: str) -> list[Row]:
    """The rows, none of which may name the attempt of another."""
    kept = list(rows)
    names = [row["attempt"] for row in kept]
    if len(set(names)) != len(names):
        raise InputFileError(file, f"{_twice(names)!r} stands twice", key=key)
    return kept


def patch_columns(patch: str | None) -> Row:
    """The columns of a patch whose text is known; of null nothing is known."""
    if patch is None:
        return {}
    content = patch.encode()
    state = "present" if patch.strip() else "empty"
    return {"patch": state, "patch_bytes": len(content), "patch_sha256": digest_bytes(content)}


def _value(content: bytes, file: str, name: str) -> Any:
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_distinct, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InputFileError(file, f"not a whole JSON document: {str(error)[:200]}", key=name or None) from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"{_twice([key for key, _ in pairs])!r} stands twice in one object")
    return found


def _twice(words: list[str]) -> str:
    return next(word for word, times in Counter(words).items() if times > 1)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{type(value).__name__} {shown[:50]}..."
