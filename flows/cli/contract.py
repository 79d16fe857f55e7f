"""`assay contract`: who writes each file, when it is ready, who may read it; and whether a directory obeys."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from flows.cli.output import emit, json_option


@click.command()
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True)
@click.option(
    "--check",
    "path",
    type=click.Path(path_type=Path, exists=True),
    default=None,
    help="Check studies, a study, an attempt or a harness's run directory; for a file of an attempt, print its row.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, form: str, path: Path | None, as_json: bool) -> None:
    """The artifact contract as a table, or a path against it (exit 4 when it does not obey).

    \b
    assay contract --format markdown > contract.md
    assay contract --check studies/quickstart
    assay contract --check studies/quickstart/cells/.../attempts/a001/post/verdict.txt
    """
    from cells.artifacts import CONTRACT
    from cells.artifacts.rendering import as_markdown, as_text, contract_document

    as_json = as_json or form == "json"
    if path is None:
        text = as_markdown(CONTRACT).rstrip("\n") if form == "markdown" else as_text(CONTRACT)
        emit(contract_document(CONTRACT), as_json=as_json, text=text)
    elif path.is_dir():
        ctx.exit(_check(path, as_json))
    else:
        _describe(path, as_json)


def _check(path: Path, as_json: bool) -> int:
    from cells.artifacts.check import check_path

    problems = check_path(path)
    lines = [f"{one.kind:15} {one.path}\n      {one.detail}" for one in problems]
    text = "\n".join(lines) if lines else f"{path}: every file has its row and every required file is there"
    emit({"ok": not problems, "problems": [asdict(one) for one in problems]}, as_json=as_json, text=text)
    return 4 if problems else 0


def _describe(path: Path, as_json: bool) -> None:
    from cells.artifacts import CONTRACT
    from cells.artifacts.rendering import describe, row_document
    from cells.errors import UsageError

    absolute = path.absolute()
    root = next((parent for parent in absolute.parents if (parent / "start").is_dir()), None)
    if root is None:
        raise UsageError(f"{path}: asked for the row of a file; it lies in no attempt (a directory with start/)")
    name = absolute.relative_to(root).as_posix()
    row = CONTRACT.row_for(name)
    emit(row_document(row), as_json=as_json, text=describe(row, name))
