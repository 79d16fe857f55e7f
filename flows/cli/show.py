"""`assay show`: one cell, whole."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, find_study, json_option, studies_option


@click.command()
@click.argument("study")
@click.argument("cell")
@click.option("--follow", is_flag=True, help="Tail the trace of a running cell, one line an event.")
@click.option("--content", is_flag=True, help="With --follow: show arguments and replies, not only that they happened.")
@studies_option
@json_option
def command(study: str, cell: str, follow: bool, content: bool, studies: Path | None, as_json: bool) -> None:
    """One cell of STUDY: phases, files with writer, readiness and readers, trace summary, outcome, and why.

    CELL is its directory name, the first characters of its digest, or task/arm/sample.

    \b
    assay show quickstart add/control/1
    assay show quickstart add/control/1 --follow
    """
    from flows.follow import follow_cell
    from flows.freezing import open_study
    from flows.show import find_cell, show_document, show_text
    from flows.status import read_state

    directory = find_study(study, studies)
    state = read_state(open_study(directory.parent, directory.name))
    found = find_cell(state, cell)
    if follow:
        for line in follow_cell(state.study, found, content=content):
            click.echo(line)
        return
    document = show_document(state, found)
    emit(document, as_json=as_json, text=show_text(document))
