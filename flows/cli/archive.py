"""`assay archive`: mark a study, a cell or a bundle as archived."""

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
    """Mark a study (or one CELL or bundle of it) as archived: a row in the ledger, nothing is moved and nothing freed.

    \b
    assay archive quickstart
    assay archive quickstart cells/parse-1.20.2--control--s01--8d0b546bfee2
    """
    from cells.evidence.lifecycle.marks import archive, subject_of

    with opened(study, studies) as store:
        name = subject_of(store, subject)
        row = archive(store, name)
        text = f"{store.name}: {name} is archived" + ("" if row else " (it was already)")
        emit(
            {"study": store.name, "subject": name, "archived": True, "changed": row is not None},
            as_json=as_json,
            text=text,
        )
