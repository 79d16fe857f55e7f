"""`assay regrade`: verify and score again, without the agent."""

from __future__ import annotations

from pathlib import Path

import click

from flows.cli.output import emit, find_study, json_option, studies_option


@click.command()
@click.argument("study")
@click.option("--cell", "cells", multiple=True, help="Only this cell (as for `assay show`); may be given again.")
@click.option("--diff", is_flag=True, help="Print only the cells whose verdict changed.")
@studies_option
@json_option
def command(study: str, cells: tuple[str, ...], diff: bool, studies: Path | None, as_json: bool) -> None:
    """Verify and score the accepted attempts of STUDY again from their stored patches; the agent does not run.

    The old verification and score stay; tables use the newest and say which (column `verification`).

    \b
    assay regrade quickstart --diff
    """
    from cells.errors import UsageError
    from flows.freezing import open_study
    from flows.regrade_command import regrade_study
    from flows.show import find_cell
    from flows.status import read_state

    directory = find_study(study, studies)
    frozen = open_study(directory.parent, directory.name, frozen=True)
    state = read_state(frozen)
    if state.is_open:
        raise UsageError(f"study {directory.name} has open cells; regrade it when its cells are done")
    chosen = [find_cell(state, cell) for cell in cells] or [cell for cell in state.cells if state.unit(cell)]
    changes = regrade_study(frozen, state, chosen, lambda line: click.echo(line, err=True))
    shown = [change for change in changes if change.differs or not diff]
    document = {
        "study": directory.name,
        "regraded": len(changes),
        "changed": sum(change.differs for change in changes),
        "cells": [vars(change) for change in shown],
    }
    lines = [f"{change.cell} {change.verification}: {change.before} -> {change.after}" for change in shown]
    lines.append(f"{document['regraded']} cells regraded, {document['changed']} verdicts changed")
    emit(document, as_json=as_json, text="\n".join(lines))
