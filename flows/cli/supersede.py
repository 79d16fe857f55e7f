"""`assay supersede`: link a correction to the bundle that it replaces."""

from __future__ import annotations

from pathlib import Path

import click

from cells.errors import UsageError
from flows.cli.output import emit, json_option, studies_option
from flows.cli.store import opened


@click.command()
@click.argument("study")
@click.argument("old")
@click.option("--by", "new", help="The published bundle that takes its place.")
@click.option(
    "--with",
    "directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A directory with the files of a corrected verification or score; it is published first.",
)
@click.option("--reason", required=True, help="Why; kept in the ledger.")
@studies_option
@json_option
def command(
    study: str, old: str, new: str | None, directory: Path | None, reason: str, studies: Path | None, as_json: bool
) -> None:
    """Give the bundle OLD a successor. Both are kept; readers are given the newest.

    \b
    assay supersede quickstart cells/C/verifications/v002 --by cells/C/verifications/v003 --reason "wrong image"
    """
    from cells.evidence.lifecycle.supersede import correct, supersede

    if (new is None) == (directory is None):
        raise UsageError("assay supersede: expected one of --by BUNDLE and --with DIRECTORY")
    with opened(study, studies, writing=directory is not None) as store:
        if directory is not None:
            unit = correct(store, old, directory, reason)
        else:
            unit = supersede(store, old, str(new), reason)
        document = {"study": store.name, "old": old, "new": unit.path, "digest": unit.digest, "reason": reason}
        emit(document, as_json=as_json, text=f"{store.name}: {old} is superseded by {unit.path}")
