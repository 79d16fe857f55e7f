"""`assay tasks`: import tasks, and check that they can be measured on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from flows.cli.output import emit, json_option


@click.group()
def command() -> None:
    """Import tasks, and check that they can be measured here.

    \b
    assay tasks import releases examples/releases/pairs.toml --out tasks
    assay tasks check tasks --repeat 3
    """


@command.group("import")
def import_group() -> None:
    """Make native task directories from another source."""


@import_group.command("releases")
@click.argument("source", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Where task directories go."
)
@json_option
def releases(source: Path, out: Path, as_json: bool) -> None:
    """Two consecutive releases of a project as a task: DIR/<name>-<new>/task.toml for each pair of SOURCE.

    Sources come from the package index by this machine's pip; the tests run in containers without network.
    A pair that is there already is kept.

    \b
    assay tasks import releases examples/releases/pairs.toml --out examples/releases/tasks
    """
    from dataclasses import asdict

    from flows.task_import import import_releases, line_of, require_counts
    from flows.task_import_sdist import fetch_sdist
    from flows.task_measure import measurer
    from launchers.engine import Engine

    measure = measurer(Engine.connect())
    results = import_releases(source, out, fetch_sdist, measure, lambda line: click.echo(line, err=True))
    document = {"tasks": [asdict(pair) for pair in results]}
    emit(document, as_json=as_json, text="\n".join(line_of(pair) for pair in results))
    require_counts(results)


@command.command("check")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--repeat", type=click.IntRange(1, 100), default=1, help="Runs of each control; more than one finds flaky tests."
)
@json_option
@click.pass_context
def check(ctx: click.Context, directory: Path, repeat: int, as_json: bool) -> None:
    """Check tasks on this machine: the gold patch must resolve, the empty patch must not.

    DIRECTORY is a task directory, or a directory of them. Exit 1 when a task is not fit.

    \b
    assay tasks check examples/quickstart/tasks --repeat 3
    """
    from cells.errors import UsageError
    from cells.tasks import freeze, load_task
    from flows.task_check import check_tasks
    from launchers.engine import Engine

    found = (
        [directory] if (directory / "task.toml").is_file() else sorted(p.parent for p in directory.glob("*/task.toml"))
    )
    if not found:
        raise UsageError(f"asked for tasks in {directory}; found no task.toml there or one level below")
    tasks = [load_task(path) for path in found]
    engine = Engine.connect()
    with tempfile.TemporaryDirectory(prefix="assay-check-") as scratch:
        frozen = [freeze(task, Path(scratch) / f"{number:04d}") for number, task in enumerate(tasks)]
        results = check_tasks(
            frozen, engine, repeat, lambda one: click.echo(f"{one.id}: {'ok' if one.ok else one.reason}", err=True)
        )
    lines = [f"{one.id:32} gold {one.gold:10} empty {one.empty:10} {'ok' if one.ok else one.reason}" for one in results]
    emit({"tasks": [one.as_json() for one in results]}, as_json=as_json, text="\n".join(lines))
    ctx.exit(0 if all(one.ok for one in results) else 1)
