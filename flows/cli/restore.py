"""`assay restore`: bring an export back under a studies root."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option, studies_root
from flows.cli.store import disk_faults


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--name", help="Under another name than it had.")
@click.option("--out", type=click.Path(path_type=Path), help="Where the bundle of a bundle's export goes.")
@studies_option
@json_option
def command(source: Path, name: str | None, out: Path | None, studies: Path | None, as_json: bool) -> None:
    """Restore a study from an export (file or bag): unpacked to a stage, verified, then published by one rename.

    \b
    assay restore quickstart.tar.zst --studies other-studies
    """
    from cells.evidence.lifecycle.restore import restore, restore_bundle
    from cells.evidence.roots import StudiesRoot

    root = studies_root(studies)
    with disk_faults(root):
        if out is not None:
            place = restore_bundle(source, out.absolute())
            emit({"path": str(place)}, as_json=as_json, text=f"{place}: restored and verified")
            return
        store = restore(source, StudiesRoot.ensure(root), name)
        accepted = len(store.accepted())
        document = {"study": store.name, "path": str(store.path), "accepted": accepted, "head": store.ledger.head}
        emit(document, as_json=as_json, text=f"{store.path}: restored and verified, {accepted} accepted cells")
