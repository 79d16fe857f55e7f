"""`assay run`: run a study, or go on with it."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option, studies_root


@click.command()
@click.argument("study", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--workers", type=click.IntRange(1, 256), help="Cells at once (default: up to 4, as memory allows).")
@click.option("--limit", type=click.IntRange(1), help="Only the first N cells in the plan's order, and their controls.")
@click.option("--task", "tasks", multiple=True, help="Only this task; may be given again.")
@click.option("--arm", "arms", multiple=True, help="Only this arm; may be given again.")
@click.option(
    "--sample", "samples", multiple=True, type=click.IntRange(1), help="Only this sample; may be given again."
)
@click.option("--max-infra-retries", type=click.IntRange(0, 20), default=2, show_default=True)
@click.option(
    "--accept-runtime-change", is_flag=True, help="Go on although engine, kernel or version changed; reported."
)
@click.option("--prefect-api-url", metavar="URL", help="Use this Prefect server instead of the local one.")
@studies_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, study: Path, studies: Path | None, as_json: bool, **options: object) -> None:
    """Plan STUDY (a study file) if needed, then run it; run the same command again to go on after any interruption.

    Exit: 0 done, 1 some cells have no valid result, 2 study file, 3 environment, 4 evidence, 130 interrupted or paused.

    \b
    assay run study.toml
    assay run study.toml --workers 4 --limit 8
    """
    from flows.report import write_report
    from flows.run import run_study
    from flows.selection import RunOptions
    from flows.status import status_document
    from flows.summary import headline, result_table

    root = studies_root(studies)
    report = run_study(study, root, RunOptions(**options), lambda line: click.echo(line, err=True))  # type: ignore[arg-type]
    page = write_report(root, report.state.study.plan.study)
    document = status_document(report.state)
    text = f"{headline(document)}\n\n{result_table(report.state)}\n\nreport: {page}"
    more = {"errors": list(report.errors), "paused": report.paused, "report": str(page)}
    emit(document | more, as_json=as_json, text=text)
    for line in report.errors:
        click.echo(line, err=True)
    ctx.exit(report.exit_code)
