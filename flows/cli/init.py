"""`assay init`: a small commented study to start from."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@json_option
def command(directory: Path, as_json: bool) -> None:
    """Write a small study with one task and two arms; every key is explained in it. Nothing that exists is overwritten.

    \b
    assay init my-study
    assay run my-study/study.toml
    """
    from flows.starter import write_starter

    written = write_starter(directory)
    text = "\n".join(f"wrote {path}" for path in written) + f"\nnext: assay run {directory / 'study.toml'}"
    emit({"directory": str(directory), "written": [str(path) for path in written]}, as_json=as_json, text=text)
