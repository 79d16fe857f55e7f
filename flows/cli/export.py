"""`assay export`: a study or bundle as one file, or as a bag."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option
from flows.cli.store import opened


@click.command()
@click.argument("study")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, help="The new file (or bag directory).")
@click.option("--bag", is_flag=True, help="A BagIt directory instead of a .tar.zst file.")
@click.option("--bundle", help="Only this bundle (its path in the study).")
@click.option("--public", is_flag=True, help="It is to be published: policy.json must permit that.")
@click.option(
    "--sign", type=click.Path(path_type=Path, dir_okay=False), help="Sign the ledger's head first (PEM key, Ed25519)."
)
@studies_option
@json_option
def command(
    study: str,
    output: Path,
    bag: bool,
    bundle: str | None,
    public: bool,
    sign: Path | None,
    studies: Path | None,
    as_json: bool,
) -> None:
    """Write a study as one file. Only what verifies is exported, and only if its policy lets it leave.

    \b
    assay export quickstart --output quickstart.tar.zst
    """
    from cells.evidence.lifecycle.export import export
    from cells.evidence.signature import sign_head
    from cells.evidence.verify_study import read_study

    with opened(study, studies) as store:
        signature = None if sign is None else sign_head(store.path, read_study(store.path), sign)
        unit = None if bundle is None else store.history().unit(bundle.rstrip("/"))
        today = datetime.now(UTC).date()
        done = export(store, output.absolute(), bag=bag, public=public, unit=unit, today=today)
        document = {
            "study": store.name,
            "path": str(done.path),
            "digest": done.digest,
            "entries": done.entries,
            "bytes": done.size,
            "head": store.ledger.head,
            "signature": None if signature is None else str(signature.relative_to(store.path)),
        }
        text = f"{done.path}: {done.entries} entries, {done.size} bytes, {done.digest}"
        emit(document, as_json=as_json, text=text)
