"""`assay purge`: remove evidence for good, with preview, double confirmation and a tombstone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cells.errors import UsageError
from flows.cli.output import emit, json_option, studies_option
from flows.cli.store import opened

if TYPE_CHECKING:
    from cells.evidence.lifecycle.purge_target import Preview


@click.command()
@click.argument("study")
@click.argument("identity", metavar="FULL_ID")
@click.option("--preview", "only_look", is_flag=True, help="List what would go and what stands against it.")
@click.option("--confirm", metavar="FULL_ID", help="The same full id again: removes it. There is no way back.")
@click.option("--max-entries", type=int, default=500_000, show_default=True, help="Refuse to remove more than this.")
@studies_option
@json_option
def command(
    study: str,
    identity: str,
    only_look: bool,
    confirm: str | None,
    max_entries: int,
    studies: Path | None,
    as_json: bool,
) -> None:
    """Remove an archived study, cell or bundle by its full id; its tombstone stays in the ledger.

    \b
    assay purge quickstart sha256:8d0b... --preview
    assay purge quickstart sha256:8d0b... --confirm sha256:8d0b...
    """
    from cells.evidence.lifecycle.purge import purge
    from cells.evidence.lifecycle.purge_target import Bounds, preview

    if only_look == (confirm is not None):
        raise UsageError("assay purge: expected one of --preview and --confirm FULL_ID")
    bounds = Bounds(entries=max_entries)
    if confirm is None:
        with opened(study, studies) as store:
            seen = preview(store, identity, bounds)
            emit(seen.as_json(), as_json=as_json, text=_listed(seen))
        return
    with opened(study, studies, writing=True) as store:
        done = purge(store, identity, confirm, bounds)
        document = {"study": store.name, "subject": done.subject, "entries": done.entries, "bytes": done.size}
        emit(
            document,
            as_json=as_json,
            text=f"{store.name}: {done.subject} is gone: {done.entries} entries, {done.size} bytes",
        )


def _listed(seen: Preview) -> str:
    lines = [f"{size:>12}  {kind:9}  {path}" for path, kind, size in seen.entries]
    lines.append(f"{len(seen.entries)} entries, {seen.size} bytes; nothing was changed")
    lines += [f"refused: {reason}" for reason in seen.refusals] or ["nothing stands against it"]
    return "\n".join(lines)
