"""`assay support`: an environment report that can be attached to a question."""

from __future__ import annotations

import json
from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option, studies_root


@click.command()
@click.option("--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="File to write.")
@studies_option
@json_option
def command(output: Path, studies: Path | None, as_json: bool) -> None:
    """Write versions, engine, checks and counts of studies: no study content, no key, no path of this host.

    \b
    assay support --output support.json
    """
    from cells.errors import UsageError
    from cells.evidence.files import write_new
    from flows.support import support_document

    document = support_document(studies_root(studies))
    try:
        write_new(output, json.dumps(document, indent=2).encode() + b"\n", 0o644)
    except FileExistsError:
        raise UsageError(f"asked to write {output}; it exists already") from None
    emit({"written": str(output)}, as_json=as_json, text=f"wrote {output}; it holds no study content, key or host path")
