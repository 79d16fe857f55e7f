"""The contract for people and for programs: terminal table, Markdown page, JSON, tree of files; all from the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from cells.artifacts.conditions import Condition
from cells.artifacts.model import Grant, Role, Row, Scope
from cells.artifacts.table import Contract

_LETTER = {Grant.NO: "-", Grant.CONDITIONAL: "c", Grant.YES: "y"}
_SCOPE_TITLES = {
    Scope.CELL: "Of a measurement, in the task's or cell's directory",
    Scope.RUN: "Of a measurement, in the run directory",
    Scope.SUBAGENT: "Of a named child",
    Scope.SCORE: "Of a scorer",
    Scope.BRANCH_POINT: "Of a branch point",
    Scope.BRANCH: "Of a branch attempt",
    Scope.SESSION: "Of a coding session",
    Scope.HOST: "Elsewhere on the host",
    Scope.ATTEMPT: "Of an attempt of ours",
    Scope.VERIFICATION: "Of a later verification",
    Scope.RESCORE: "Of a later score",
    Scope.REPLAY: "Of a replay, beside the files of an attempt",
    Scope.STUDY: "Of a study",
    Scope.STUDIES: "Of a studies root",
}
_PREFACE = """# The artifact contract

This page is written by `assay contract --format markdown` from the table that the program obeys; do not edit it by
hand.

Every file that a measurement writes has a row: who writes it, when it is ready, who may read it. A write without a
row raises; so does a read by a role that the row does not let read. A study may narrow a row, never widen it.

**Ready.** `run-start`: fixed before the model starts. `live-prefix`: grows while the run is active; a live reader
gets the rows through the current turn. `event`: ready after something happened, as the row says. `post-run`: final
only after the run; no live reader gets it, and a row that says otherwise cannot be made. A row with two classes is
read by role: live roles see the earliest, the others the latest.

**Readers.** context builds the next model input; detector watches for a hurdle; controller acts on detectors; audit
checks what happened; scoring groups and measures; replay runs a recording again. `y` yes, `c` under the conditions
named, `-` no. Context, detector and controller act while a run is active.

**Row** is the line of the saved-files contract (1 to 49), where the file stands in its tables. Names are relative to
the place in angle brackets; `<word>` is part of one name, `*` any part of one, `**` any depth, `NNNN` four digits.
"""


def row_document(row: Row) -> dict[str, Any]:
    """One row for programs."""
    return {
        "pattern": row.pattern,
        "scope": row.scope.value,
        "writer": row.writer,
        "ready": [ready.value for ready in row.classes],
        "ready_note": row.ready_note,
        **{role.value: row.permissions[role].grant.value for role in Role},
        "conditions": {role.value: words for role in Role if (words := _conditions(row, role))},
        "required": row.required,
        "origin": row.origin,
        "seed_row": row.seed_row,
        "assistant_only": row.assistant_only,
        "note": row.note,
    }


def contract_document(contract: Contract) -> dict[str, Any]:
    """The whole contract for programs."""
    meanings = {one.word: {"checked_by": one.checked_by.value, "meaning": one.meaning} for one in Condition}
    return {"v": 1, "conditions": meanings, "rows": [row_document(row) for row in contract]}


def as_text(contract: Contract) -> str:
    """A table for a terminal."""
    heads = ("file", "scope", "ready", "ctx", "det", "ctl", "aud", "sco", "rep", "writer")
    lines = [(row.pattern, row.scope.value, "/".join(row.classes), *_letters(row), row.writer) for row in contract]
    widths = [max(len(line[at]) for line in (heads, *lines)) for at in range(len(heads))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in (heads, *lines)
    )


def as_markdown(contract: Contract) -> str:
    """The page of the manual."""
    order = list(_SCOPE_TITLES)
    rows = sorted(contract, key=lambda row: order.index(row.scope))
    parts = [_PREFACE, "## An attempt on disk\n\n```\n" + tree(contract, Scope.ATTEMPT) + "\n```\n"]
    for scope, group in groupby(rows, key=lambda row: row.scope):
        parts.append(f"## {_SCOPE_TITLES[scope]}\n\n{_markdown_table(list(group))}\n")
    parts.append("## Conditions\n\n" + _condition_table() + "\n")
    return "\n".join(parts)


def tree(contract: Contract, scope: Scope) -> str:
    """The files of a scope as an indented tree; `*` marks what a whole unit must have."""
    lines: list[str] = []
    open_folders: list[str] = []
    for row in (row for row in contract if row.scope is scope):
        *folders, name = row.matcher.tail.split("/")
        if name == "**":
            name = folders.pop() + "/**"
        for depth, folder in enumerate(folders):
            if open_folders[: depth + 1] != folders[: depth + 1]:
                lines.append("  " * depth + folder + "/")
                open_folders = folders[: depth + 1]
        open_folders = folders
        lines.append("  " * len(folders) + name + (" *" if row.required else ""))
    return "\n".join(lines)


def describe(row: Row, name: str) -> str:
    """One row in words, for `assay contract --check FILE` and `assay show`."""
    lines = [
        f"{name}: {row.pattern} (scope {row.scope})",
        f"  written by {row.writer}, ready {row.ready_words()}",
        f"  read by {', '.join(row.readers()) or 'nobody'}",
    ]
    lines += [f"    {role}: {', '.join(words)}" for role in Role if (words := _conditions(row, role))]
    return "\n".join([*lines, f"  {row.note}"] if row.note else lines)


def _letters(row: Row) -> list[str]:
    return [_LETTER[row.permissions[role].grant] for role in Role]


def _conditions(row: Row, role: Role) -> list[str]:
    return sorted(one.word for one in row.permissions[role].conditions)


def _markdown_table(rows: Sequence[Row]) -> str:
    heads = ["file", "row", "writer", "ready", *(role.value for role in Role), "must be there", "notes"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for row in rows:
        marks = [_mark(row, role) for role in Role]
        required = "yes" if row.required else ""
        notes = "; ".join(part for part in ("assistant only" * row.assistant_only, row.note) if part)
        number = str(row.seed_row or "")
        lines.append(_line([f"`{row.pattern}`", number, row.writer, row.ready_words(), *marks, required, notes]))
    return "\n".join(lines)


def _mark(row: Row, role: Role) -> str:
    words = _conditions(row, role)
    letter = _LETTER[row.permissions[role].grant]
    return f"{letter}: {', '.join(words)}" if words else letter


def _condition_table() -> str:
    lines = [_line(["condition", "checked by", "meaning"]), _line(["---"] * 3)]
    checked = {"reader": "the reader, from the request", "purpose": "name: the reader says what it reads for"}
    lines += [_line([f"`{one.word}`", checked[one.checked_by.value], one.meaning]) for one in Condition]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
