"""`assay pause`: Let the running cells of a study finish, then wait."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, find_study, json_option, studies_option


@click.command()
@click.argument("study")
@studies_option
@json_option
def command(study: str, studies: Path | None, as_json: bool) -> None:
    """Let the running cells of a study finish, then wait; `assay run` goes on later.

    \b
    assay pause quickstart
    """
    from flows.requests import request

    directory = find_study(study, studies)
    request(directory, "pause")
    text = (
        f"asked the run of {directory.name} to pause after its running cells; `assay status {directory.name}` shows it"
    )
    emit({"study": directory.name, "requested": "pause"}, as_json=as_json, text=text)
