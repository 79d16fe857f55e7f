"""What a detector is: the fields that it names, and a judgement of the newest turn from the rows through it.

Rules:
1. A judgement is a function of the rows through its turn and of the detector's settings; the same prefix gives the
   same judgement.
2. A hit concerns the newest turn: what ended earlier is not reported again and again.
3. Evidence points at rows by turn and field; facts are numbers or short text, for the study's note template.
4. A detector that asks a model puts a question first and judges the reply; it never sees anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol

Row = Mapping[str, Any]
Fact = int | str

ENVELOPE = frozenset({"event", "turn", "segment"})
"""Fields that every detector gets: they say what kind of row it is and where it stands."""
TEXT_CAP = 80


class SettingsError(ValueError):
    """A detector's settings are wrong: names the key, what was found and what is allowed."""


@dataclass(frozen=True)
class Evidence:
    """A row that a judgement rests on, by turn and field."""

    turn: int
    field: str


@dataclass(frozen=True)
class Hit:
    """The hurdle is there, at the newest turn."""

    evidence: tuple[Evidence, ...]
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What a detector asks a model: messages with role and text content."""

    messages: tuple[Mapping[str, str], ...]


class Detector(Protocol):
    """A detector for one hurdle."""

    name: ClassVar[str]
    fields: ClassVar[frozenset[str]]
    """Trace fields that its contract names, beside the envelope."""
    facts: ClassVar[frozenset[str]]
    """Names that a note template may use."""
    template: ClassVar[str]
    """The note when the study has none of its own."""
    asks: ClassVar[bool]

    def judge(self, rows: Sequence[Row], turn: int) -> Hit | Question | None:
        """The judgement of the newest turn; a question when a model has to be asked."""

    def judge_reply(self, rows: Sequence[Row], turn: int, reply: str) -> Hit | None:
        """The judgement from a model's reply to the question that `judge` gave for the same rows."""


@dataclass(frozen=True)
class FixedDetector:
    """Base of the detectors that need no model. Class attributes are given by each."""

    name: ClassVar[str]
    fields: ClassVar[frozenset[str]]
    facts: ClassVar[frozenset[str]]
    template: ClassVar[str]
    asks: ClassVar[bool] = False

    def judge(self, rows: Sequence[Row], turn: int) -> Hit | Question | None:
        """See `Detector.judge`."""
        raise NotImplementedError

    def judge_reply(self, rows: Sequence[Row], turn: int, reply: str) -> Hit | None:
        """A fixed detector asked nothing."""
        return None


def events(rows: Sequence[Row], kind: str) -> list[Row]:
    """Rows of one event that belong to a turn of the main lane."""
    return [row for row in rows if row.get("event") == kind and isinstance(row.get("turn"), int)]


def short_text(value: object) -> str:
    """Text of model origin made safe to quote: one line, printable, capped."""
    text = "".join(character if character.isprintable() else " " for character in str(value))
    return text if len(text) <= TEXT_CAP else text[: TEXT_CAP - 1] + "…"


def settled(detector: type[Any], settings: Mapping[str, Any]) -> Any:
    """A detector from its settings; `SettingsError` for an unknown key, a wrong type or a value out of range."""
    known = {one.name: one for one in fields(detector)}
    for key, value in settings.items():
        if key not in known:
            raise SettingsError(f"{detector.name}: unknown setting {key!r}; allowed are {', '.join(sorted(known))}")
        wanted = type(known[key].default)
        numeric = wanted is float and isinstance(value, int) and not isinstance(value, bool)
        if type(value) is not wanted and not numeric:
            raise SettingsError(f"{detector.name}: {key} is {value!r}; expected {wanted.__name__}")
        if isinstance(value, (int, float)) and value <= 0:
            raise SettingsError(f"{detector.name}: {key} is {value}; expected a positive number")
    return detector(**settings)
