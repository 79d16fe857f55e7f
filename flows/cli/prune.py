"""`assay prune`: images and layers that no study needs."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option, studies_root


@click.command()
@click.option(
    "--all", "everything", is_flag=True, help="Also what studies under this root need; the next run builds it again."
)
@studies_option
@json_option
def command(everything: bool, studies: Path | None, as_json: bool) -> None:
    """Remove images and layer volumes of ours that no study under the studies root needs; nothing else is touched.

    \b
    assay prune
    """
    from flows.needed import needed_recipes
    from launchers.engine import Engine
    from launchers.reaper import prune

    needed = set() if everything else needed_recipes(studies_root(studies))
    engine = Engine.connect()
    try:
        removed = prune(engine, needed)
    finally:
        engine.close()
    text = "\n".join(
        f"removed {item.kind} {item.name}" + (f": {item.problem}" if item.problem else "") for item in removed
    )
    emit({"removed": [vars(item) for item in removed]}, as_json=as_json, text=text or "nothing to remove")
