"""`assay reap`: leftovers of dead owners."""

from __future__ import annotations

import click

from flows.cli.output import emit, json_option


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Remove containers and volumes of ours whose owner is dead or whose deadline has passed; nothing else is touched.

    \b
    assay reap
    """
    from launchers.engine import Engine
    from launchers.reaper import reap

    engine = Engine.connect()
    try:
        removed = reap(engine)
    finally:
        engine.close()
    text = "\n".join(f"removed {item.kind} {item.name} ({item.why})" for item in removed) or "nothing to remove"
    emit({"removed": [vars(item) for item in removed]}, as_json=as_json, text=text)
