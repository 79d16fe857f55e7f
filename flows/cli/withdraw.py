"""`assay withdraw`: withdraw the claims that rest on a bundle."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option
from flows.cli.store import opened


@click.command()
@click.argument("study")
@click.argument("bundle")
@click.option("--reason", required=True, help="Why; the report prints it.")
@studies_option
@json_option
def command(study: str, bundle: str, reason: str, studies: Path | None, as_json: bool) -> None:
    """Withdraw what was claimed from a BUNDLE (its path in the study): tables drop it, and what was made from it,
    and say so.

    \b
    assay withdraw quickstart cells/parse--control--s01--8d0b546bfee2/attempts/a001 --reason "licence of the task ended"
    """
    from cells.evidence.lifecycle.marks import withdraw

    with opened(study, studies) as store:
        gone = [unit.path for unit in withdraw(store, bundle.rstrip("/"), reason)]
        text = "\n".join([f"{store.name}: withdrawn ({reason}):", *(f"  {path}" for path in gone)])
        emit({"study": store.name, "withdrawn": gone, "reason": reason}, as_json=as_json, text=text)
