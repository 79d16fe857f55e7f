"""`assay unarchive`: take the archive mark away."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option
from flows.cli.store import opened


@click.command()
@click.argument("study")
@click.argument("subject", default=".")
@studies_option
@json_option
def command(study: str, subject: str, studies: Path | None, as_json: bool) -> None:
    """Take the archive mark of a study (or of one CELL or bundle of it) away: a row in the ledger.

    \b
    assay unarchive quickstart
    assay unarchive quickstart cells/parse-1.20.2--control--s01--8d0b546bfee2
    """
    from cells.evidence.lifecycle.marks import subject_of, unarchive

    with opened(study, studies) as store:
        name = subject_of(store, subject)
        row = unarchive(store, name)
        text = f"{store.name}: {name} is not archived" + ("" if row else " (it was not)")
        emit(
            {"study": store.name, "subject": name, "archived": False, "changed": row is not None},
            as_json=as_json,
            text=text,
        )
