"""Marks: rows that change how evidence is seen and touch no byte of it: archived, labelled, withdrawn, consumed.

Rules (30-evidence 28, 46, 60; saved-files "Session lifecycle evidence"):
1. Archiving changes the ledger only: nothing is moved, compressed or freed. Unarchiving takes the mark away again.
2. A withdrawn unit stays where it is; tables and reports drop it, and what was derived from it, and say so.
3. Labels are for people: they enter no model's input, no replay and no measurement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cells.errors import UsageError
from cells.evidence.history import Unit
from cells.evidence.ledger import Row
from cells.evidence.study_store import StudyStore

STUDY = "."
"""The subject of marks on the study as a whole."""
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,63}")


def archive(store: StudyStore, subject: str = STUDY) -> Row | None:
    """Mark a study, cell or unit as archived; None when it is already."""
    _known(store, subject)
    if subject in store.history().archived:
        return None
    return store.ledger.append("archived", subject)


def unarchive(store: StudyStore, subject: str = STUDY) -> Row | None:
    """Take the mark away; None when there is none."""
    _known(store, subject)
    if subject not in store.history().archived:
        return None
    return store.ledger.append("unarchived", subject)


def label(store: StudyStore, subject: str, add: Iterable[str] = (), remove: Iterable[str] = ()) -> set[str]:
    """Add and remove labels of a study, cell or unit; the labels that it has now."""
    _known(store, subject)
    asked, gone = sorted(set(add)), sorted(set(remove))
    for text in (*asked, *gone):
        if not _LABEL.fullmatch(text):
            raise UsageError(
                f"label {text!r}: expected 1 to 64 letters, digits, spaces or `._:/+-`, a letter or digit first"
            )
    now = store.history().labels.get(subject, set())
    if set(asked) <= now and not set(gone) & now:
        return set(now)
    store.ledger.append("labelled", subject, None, {"add": asked, "remove": gone})
    return set(store.history().labels.get(subject, set()))


def withdraw(store: StudyStore, path: str, reason: str) -> list[Unit]:
    """Withdraw the claims that rest on a unit; every unit whose claims are gone with it, itself first.

    UsageError without a reason, ConflictError for a unit that the ledger does not know.
    """
    unit = store.history().unit(path)
    if not reason.strip():
        raise UsageError(f"withdraw {path}: asked without a reason; say why, the report will print it")
    if unit.withdrawn is None:
        store.ledger.append("withdrawn", path, unit.digest, {"reason": reason})
    return [store.history().unit(path), *store.history().derived_from(path)]


def consume(store: StudyStore, path: str, consumer: str) -> Row:
    """Record that something (a report, a replay, a table) read a unit, and at which row of the ledger; once for each
    pair."""
    unit = store.history().unit(path)
    for row in store.history().consumed:
        if row.subject == path and row.detail.get("consumer") == consumer and row.digest == unit.digest:
            return row
    detail = {"consumer": consumer, "at_rows": len(store.ledger.rows())}
    return store.ledger.append("consumed", path, unit.digest, detail)


def subject_of(store: StudyStore, reference: str) -> str:
    """The subject that a person means: `.` or the study's name, a unit's path, or a cell's directory name."""
    if reference in (STUDY, store.name):
        return STUDY
    history = store.history()
    if reference in history.units:
        return reference
    known = {unit.cell for unit in history.units.values()} | {one.get("cell") for one in history.started.values()}
    name = reference.removeprefix("cells/").rstrip("/")
    if name in known:
        return f"cells/{name}"
    raise UsageError(
        f"{reference!r}: no unit and no cell of study {store.name} has this name; `assay status` lists them"
    )


def _known(store: StudyStore, subject: str) -> None:
    """UsageError unless the ledger knows the study, cell or unit."""
    history = store.history()
    cells = {unit.cell for unit in history.units.values()} | {one.get("cell") for one in history.started.values()}
    if subject == STUDY or subject in history.units or subject.removeprefix("cells/") in cells:
        return
    raise UsageError(
        f"{subject!r}: asked for a study (`.`), a cell (`cells/NAME`) or a unit's path; the ledger knows none such"
    )
