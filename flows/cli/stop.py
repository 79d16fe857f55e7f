"""`assay stop`: Let the running cells of a study finish, then end the run."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, find_study, json_option, studies_option


@click.command()
@click.argument("study")
@studies_option
@json_option
def command(study: str, studies: Path | None, as_json: bool) -> None:
    """Let the running cells of a study finish, then end the run; `assay run` goes on later.

    \b
    assay stop quickstart
    """
    from flows.requests import request

    directory = find_study(study, studies)
    request(directory, "stop")
    text = (
        f"asked the run of {directory.name} to stop after its running cells; `assay status {directory.name}` shows it"
    )
    emit({"study": directory.name, "requested": "stop"}, as_json=as_json, text=text)
