"""`assay label`: labels on studies, cells and bundles."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option
from flows.cli.store import opened


@click.command()
@click.argument("study")
@click.argument("subject", default=".")
@click.option("--add", multiple=True, help="A label to add; may be given several times.")
@click.option("--remove", multiple=True, help="A label to take away.")
@studies_option
@json_option
def command(
    study: str, subject: str, add: tuple[str, ...], remove: tuple[str, ...], studies: Path | None, as_json: bool
) -> None:
    """Show or change the labels of a study, or of one CELL or bundle of it. Labels are for people; no measurement
    sees them.

    \b
    assay label quickstart --add baseline
    """
    from cells.evidence.lifecycle.marks import label, subject_of

    with opened(study, studies) as store:
        name = subject_of(store, subject)
        labels = sorted(label(store, name, add, remove) if add or remove else store.history().labels.get(name, set()))
        text = f"{store.name}: {name}: {', '.join(labels) or 'no labels'}"
        emit({"study": store.name, "subject": name, "labels": labels}, as_json=as_json, text=text)
