"""`assay status`: where a study stands."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from flows.cli.output import emit, find_study, json_option, studies_option


@click.command()
@click.argument("study")
@click.option("--unblind", is_flag=True, help="Show verdicts while cells are still open; recorded in the ledger.")
@click.option("--watch", is_flag=True, help="Print again every two seconds until the run ends.")
@studies_option
@json_option
def command(study: str, unblind: bool, watch: bool, studies: Path | None, as_json: bool) -> None:
    """Counts by outcome, running cells with phase and age, time by phase, losses and money.

    \b
    assay status quickstart
    assay status quickstart --watch
    """
    from flows.freezing import open_study
    from flows.status import read_state, status_document
    from flows.summary import status_text

    directory = find_study(study, studies)
    frozen = open_study(directory.parent, directory.name)
    if unblind:
        _record(frozen)
    while True:
        state = read_state(frozen)
        document = status_document(state, unblind=unblind)
        emit(document, as_json=as_json, text=status_text(document))
        if not watch or not state.running:
            return
        time.sleep(2.0)


def _record(frozen: Any) -> None:
    plan = frozen.plan
    frozen.store.ledger.append("unblinded", plan.file_name, plan.sha256, {"by": "assay status --unblind"})
