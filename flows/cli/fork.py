"""`assay fork`: a new study from a frozen design."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option
from flows.cli.store import opened


@click.command()
@click.argument("study")
@click.argument("name")
@studies_option
@json_option
def command(study: str, name: str, studies: Path | None, as_json: bool) -> None:
    """Make the study NAME from the frozen design of STUDY: same tasks, cells and order, no results, its lineage
    recorded.

    \b
    assay fork quickstart quickstart-again
    """
    from cells.evidence.lifecycle.fork import fork, lineage_of

    with opened(study, studies) as store:
        made = fork(store, name)
        document = {"study": made.name, "path": str(made.path), "lineage": lineage_of(made)}
        emit(document, as_json=as_json, text=f"{made.path}: forked from {store.name}; `assay run {made.name}` runs it")
