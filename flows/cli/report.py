"""`assay report`: a study as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, find_study, json_option, studies_option


@click.command()
@click.argument("study")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Else report.html in the study.")
@click.option(
    "--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Also as Markdown, for a pull request."
)
@click.option("--unblind", is_flag=True, help="Show verdicts while cells are open; recorded in the ledger.")
@studies_option
@json_option
def command(
    study: str, output: Path | None, markdown: Path | None, unblind: bool, studies: Path | None, as_json: bool
) -> None:
    """One self-contained HTML file: the claim with its uncertainty, and everything that it stands on.

    It loads nothing from anywhere and can be mailed, printed or put beside a paper. The same evidence gives the same
    bytes. While cells are open it shows how cells ended, and no verdict.

    \b
    assay report quickstart
    assay report quickstart --output quickstart.html --markdown quickstart.md
    """
    from cells.evidence.files import replace
    from flows.freezing import open_study
    from flows.report import REPORT, html_report, markdown_report
    from flows.status import read_state
    from flows.tables import is_blind, record_unblinding

    directory = find_study(study, studies)
    state = read_state(open_study(directory.parent, directory.name))
    if unblind and is_blind(state):
        record_unblinding(state, "report")
    path = output.absolute() if output else directory / REPORT
    content = html_report(state)
    replace(path, content)
    if markdown is not None:
        replace(markdown.absolute(), markdown_report(state).encode())
    document = {
        "report": str(path),
        "bytes": len(content),
        "markdown": str(markdown) if markdown else None,
        "blind": is_blind(state),
    }
    emit(document, as_json=as_json, text="\n".join(str(one) for one in (path, markdown) if one))
