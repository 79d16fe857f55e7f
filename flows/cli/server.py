"""`assay server`: the local Prefect server."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option, studies_root


@click.command()
@click.argument("action", type=click.Choice(["start", "stop", "status"]))
@studies_option
@json_option
def command(action: str, studies: Path | None, as_json: bool) -> None:
    """Start, stop or look at the local Prefect server of a studies root.

    `assay run` starts it by itself and reuses it; an idle one ends by itself after ten minutes.

    \b
    assay server status
    """
    from flows.prefect_server import await_server, read_server, start_server, stop_server

    root = studies_root(studies)
    if action == "start":
        root.mkdir(parents=True, exist_ok=True)
        await_server(start_server(root))
    stopped = stop_server(root) if action == "stop" else False
    server = read_server(root)
    document = {"running": server is not None, "url": server.url if server else None, "stopped": stopped}
    text = f"running at {server.url}" if server else ("stopped" if stopped else "not running")
    emit(document, as_json=as_json, text=text)
