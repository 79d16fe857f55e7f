"""The contract: all rows, found by scope and whole pattern; and what a study may make of them.

Rules:
1. The most specific pattern of a scope wins; two equally specific ones that disagree cannot stand in one contract.
2. A branch attempt and a replay are attempts: what their own scope does not name is looked up as a file of an attempt.
3. A harness's own file under `live/harness/` keeps the readers of its own pattern; no live role reads it, since it is
   gathered after the kill.
4. `meet` narrows; a study row that would widen the base raises `ContractError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from cells.artifacts.attempt_rows import ATTEMPT
from cells.artifacts.model import LIVE_ROLES, NO, ContractError, Grant, Role, Row, Scope, UndeclaredArtifact
from cells.artifacts.pattern import check_name
from cells.artifacts.seed_core import CORE
from cells.artifacts.seed_later import ADAPTIVE, POST_RUN
from cells.artifacts.seed_text import TEXT
from cells.artifacts.study_rows import BESIDE, STUDY

_WIDER = {Scope.BRANCH: Scope.ATTEMPT, Scope.REPLAY: Scope.ATTEMPT}
_HARNESS_SCOPES = (Scope.CELL, Scope.RUN, Scope.SUBAGENT, Scope.SESSION, Scope.SCORE)
HARNESS_FOLDER = "live/harness/"


@dataclass(frozen=True)
class Contract:
    """A set of rows, one for each (scope, pattern)."""

    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        seen: set[tuple[Scope, str]] = set()
        for row in self.rows:
            if (key := (row.scope, row.pattern)) in seen:
                raise ContractError(f"{row.pattern}: two rows in scope {row.scope}; allowed is one")
            seen.add(key)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @cached_property
    def _by_scope(self) -> dict[Scope, tuple[Row, ...]]:
        ordered = sorted(self.rows, key=lambda row: row.matcher.weight, reverse=True)
        return {scope: tuple(row for row in ordered if row.scope is scope) for scope in Scope}

    def row_for(self, name: str, scope: Scope | str = Scope.ATTEMPT) -> Row:
        """The row of a file; `UndeclaredArtifact` when there is none."""
        place = Scope(scope)
        check_name(name)
        row = self._find(name, place) or (self._find(name, _WIDER[place]) if place in _WIDER else None)
        if row is None:
            raise UndeclaredArtifact(
                f"artifact {name!r} in scope {place}: no row of the contract names it; a file without a row cannot be "
                "written or read (add its row first)"
            )
        return self._with_own_class(name, row)

    def harness_row(self, name: str) -> Row | None:
        """The row that a harness's own file has by its own pattern, wherever the harness put it.

        `name` is relative to the gathered folder; leading folders that no pattern knows are ignored. Of equally
        specific rows the one that measurements share wins over that of coding sessions.
        """
        segments = name.split("/")
        for start in range(len(segments)):
            tail = "/".join(segments[start:])
            found = [row for scope in _HARNESS_SCOPES if (row := self._find(tail, scope)) is not None]
            if found:
                return max(found, key=lambda row: (row.matcher.weight, not row.assistant_only))
        return None

    def required(self, scope: Scope | str = Scope.ATTEMPT) -> tuple[Row, ...]:
        """Rows without which a unit of this scope is incomplete."""
        return tuple(row for row in self.rows if row.scope is Scope(scope) and row.required)

    def _find(self, name: str, scope: Scope) -> Row | None:
        return next((row for row in self._by_scope[scope] if row.matcher.matches(name)), None)

    def _with_own_class(self, name: str, row: Row) -> Row:
        if not name.startswith(HARNESS_FOLDER):
            return row
        own = self.harness_row(name.removeprefix(HARNESS_FOLDER))
        if own is None:
            return row
        permissions = {role: NO if role in LIVE_ROLES else own.permissions[role] for role in Role}
        return replace(row, permissions=permissions, assistant_only=own.assistant_only, seed_row=own.seed_row)


def meet(study: Iterable[Row], base: Contract) -> Contract:
    """The base contract narrowed by a study's rows; `ContractError` for one that widens or that the base lacks."""
    narrowed = {(row.scope, row.pattern): row for row in base.rows}
    for row in study:
        key = (row.scope, row.pattern)
        if key not in narrowed:
            raise ContractError(
                f"{row.pattern} in scope {row.scope}: the study names a use that the contract does not have"
            )
        _refuse_widening(row, narrowed[key])
        narrowed[key] = row
    return Contract(tuple(narrowed.values()))


def _refuse_widening(row: Row, base: Row) -> None:
    if not row.ready <= base.ready or min(row.classes) != min(base.classes):
        raise ContractError(
            f"{row.pattern}: the study says ready {row.ready_words()}; the contract says {base.ready_words()}: "
            "a study cannot change when a file is ready"
        )
    if base.required and not row.required:
        raise ContractError(f"{row.pattern}: required by the contract; a study cannot make it optional")
    for role in Role:
        asked, allowed = row.permissions[role], base.permissions[role]
        if not asked.narrows(allowed):
            raise ContractError(
                f"{row.pattern}: the study asks {_words(asked.grant, asked.conditions)} for {role}; the contract "
                f"allows {_words(allowed.grant, allowed.conditions)}: a study may narrow, never widen"
            )


def _words(grant: Grant, conditions: Iterable[object]) -> str:
    names = sorted(getattr(condition, "word", "") for condition in conditions)
    return f"{grant.value} ({', '.join(names)})" if names else grant.value


def live_readers(row: Row) -> tuple[Role, ...]:
    """The live roles that a row gives anything to."""
    return tuple(role for role in LIVE_ROLES if row.permissions[role].grant is not Grant.NO)


CONTRACT = Contract((*CORE, *ADAPTIVE, *POST_RUN, *TEXT, *ATTEMPT, *STUDY, *BESIDE))


def row_for(name: str, scope: Scope | str = Scope.ATTEMPT) -> Row:
    """The row of a file in the contract; `UndeclaredArtifact` when there is none."""
    return CONTRACT.row_for(name, scope)
