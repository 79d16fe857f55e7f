"""`assay studies`: the registry of studies across roots; it only reads them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flows.cli.output import emit, json_option, studies_option, studies_root
from flows.cli.store import disk_faults

if TYPE_CHECKING:
    from cells.evidence.lifecycle.registry import Registry

registry_option = click.option(
    "--registry",
    "place",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where the registry lies (else $ASSAY_REGISTRY, else ~/.local/state/assay/registry).",
)


@click.group("studies", invoke_without_command=True)
@registry_option
@studies_option
@json_option
@click.pass_context
def command(context: click.Context, place: Path | None, studies: Path | None, as_json: bool) -> None:
    """Studies of all registered roots; groups, directives and snapshots of the registry's own. Studies are only read.

    \b
    assay studies add studies --tag laptop
    assay studies
    """
    context.obj = {**(context.obj or {}), "registry": place}
    if context.invoked_subcommand is not None:
        return
    if studies is not None:
        rows = _studies_of(studies_root(studies))
    else:
        with disk_faults(_place(place)):
            rows = _registry(context).studies()
    emit(
        {"studies": rows}, as_json=as_json, text=_table(rows) or "no studies; `assay studies add DIR` registers a root"
    )


@command.command("add")
@click.argument("root", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--role", default="studies", show_default=True)
@click.option("--tag", "tags", multiple=True)
@json_option
@click.pass_context
def add(context: click.Context, root: Path, role: str, tags: tuple[str, ...], as_json: bool) -> None:
    """Register a studies root: assay studies add DIR --tag laptop"""
    with disk_faults(root):
        entry = _registry(context).add(root, role, tags)
    emit(entry, as_json=as_json, text=f"{entry['id']}: {entry['path']} ({', '.join(entry['tags']) or 'no tags'})")


@command.command("tag")
@click.argument("root_id")
@click.argument("tags", nargs=-1)
@json_option
@click.pass_context
def tag(context: click.Context, root_id: str, tags: tuple[str, ...], as_json: bool) -> None:
    """Give a registered root these tags: assay studies tag ROOT_ID laptop fast"""
    entry = _registry(context).tag(root_id, tags)
    emit(entry, as_json=as_json, text=f"{entry['id']}: {', '.join(entry['tags']) or 'no tags'}")


@command.command("group")
@click.argument("name")
@click.option("--child", "children", multiple=True, metavar="ROOT_ID/STUDY", help="A study of the group.")
@click.option("--directive", help="A note for whoever works on the group; appended.")
@json_option
@click.pass_context
def group(context: click.Context, name: str, children: tuple[str, ...], directive: str | None, as_json: bool) -> None:
    """Make a group, add studies or a directive to it: assay studies group spring --child ROOT_ID/quickstart"""
    from cells.evidence.lifecycle.registry import Child

    registry = _registry(context)
    document = registry.group(name, [Child.of(text) for text in children])
    if directive is not None:
        registry.direct(name, directive)
    document["directives"] = registry.directives(name)
    emit(document, as_json=as_json, text="\n".join([f"group {name}", *document["children"], *document["directives"]]))


@command.command("sync")
@click.argument("name")
@json_option
@click.pass_context
def sync(context: click.Context, name: str, as_json: bool) -> None:
    """Read the studies of a group and keep what was seen: assay studies sync spring"""
    registry = _registry(context)
    registry.sync(name)
    rows = registry.snapshots(name)
    emit({"snapshots": rows}, as_json=as_json, text=_table(rows))


@command.command("snapshots")
@click.argument("name")
@json_option
@click.pass_context
def snapshots(context: click.Context, name: str, as_json: bool) -> None:
    """What was seen last, marked stale where a study has moved on: assay studies snapshots spring"""
    rows = _registry(context).snapshots(name)
    emit({"snapshots": rows}, as_json=as_json, text=_table(rows))


def _registry(context: click.Context) -> Registry:
    from cells.evidence.lifecycle.registry import Registry

    return Registry.ensure(_place(context.obj["registry"]))


def _place(given: Path | None) -> Path:
    default = Path.home() / ".local" / "state" / "assay" / "registry"
    return Path(given or os.environ.get("ASSAY_REGISTRY") or default)


def _studies_of(root: Path) -> list[dict[str, Any]]:
    from cells.evidence.lifecycle.registry import study_facts
    from cells.evidence.roots import StudiesRoot

    opened = StudiesRoot.open(root)
    return [{"root": opened.id, "study": path.name, **study_facts(path), "error": None} for path in opened.studies()]


def _table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        marks = [word for word in ("archived", "purged") if row.get(word)] + list(row.get("labels") or ())
        state = row.get("error") or row.get("state") or f"{row.get('accepted')} accepted"
        lines.append(f"{row['root']}/{row['study']}  {state}  {' '.join(marks)}".rstrip())
    return "\n".join(lines)
