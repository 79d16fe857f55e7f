"""How the tables are written down: one call a line of the contract, one form for each place where the file can lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cells.artifacts.model import Permission, Readiness, Role, Row, Scope, Writer

START = (Readiness.RUN_START,)
LIVE = (Readiness.LIVE_PREFIX,)
POST = (Readiness.POST_RUN,)
EVENT = (Readiness.EVENT,)
START_TO_POST = (Readiness.RUN_START, Readiness.POST_RUN)
START_AND_LIVE = (Readiness.RUN_START, Readiness.LIVE_PREFIX)
LIVE_TO_POST = (Readiness.LIVE_PREFIX, Readiness.POST_RUN)


@dataclass(frozen=True)
class Form:
    """One concrete path form of a seed row."""

    scope: Scope
    pattern: str
    required: bool = False


def cell(pattern: str, required: bool = False) -> Form:
    return Form(Scope.CELL, pattern, required)


def session(pattern: str) -> Form:
    return Form(Scope.SESSION, pattern)


def subagent(pattern: str) -> Form:
    return Form(Scope.SUBAGENT, pattern)


def run(pattern: str, required: bool = False) -> Form:
    return Form(Scope.RUN, pattern, required)


def score(pattern: str, required: bool = False) -> Form:
    return Form(Scope.SCORE, pattern, required)


def branch_point(pattern: str, required: bool = False) -> Form:
    return Form(Scope.BRANCH_POINT, pattern, required)


def branch(pattern: str, required: bool = False) -> Form:
    return Form(Scope.BRANCH, pattern, required)


def seed(
    number: int | None,
    writer: str,
    ready: tuple[Readiness, ...],
    permissions: Mapping[Role, Permission],
    *forms: Form,
    assistant_only: bool = False,
    ready_note: str = "",
    note: str = "",
) -> tuple[Row, ...]:
    """The rows of one line of the saved-files contract (`number`), or of a file that only its text names (None)."""
    return tuple(
        Row(
            pattern=form.pattern,
            scope=form.scope,
            writer=writer,
            ready=frozenset(ready),
            permissions=permissions,
            required=form.required,
            origin="seed",
            seed_row=number,
            assistant_only=assistant_only,
            ready_note=ready_note,
            note=note,
        )
        for form in forms
    )


def ours(
    pattern: str,
    ready: tuple[Readiness, ...],
    permissions: Mapping[Role, Permission],
    *writers: Writer,
    scope: Scope = Scope.ATTEMPT,
    required: bool = False,
    ready_note: str = "",
    note: str = "",
) -> Row:
    """A row of a file that Assay writes for its own purposes."""
    return Row(
        pattern=pattern,
        scope=scope,
        writer=", ".join(writer.value for writer in writers),
        ready=frozenset(ready),
        permissions=permissions,
        required=required,
        writers=frozenset(writers),
        ready_note=ready_note,
        note=note,
    )
