"""`assay plan`: freeze and print the design of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flows.cli.output import emit, json_option, studies_option, studies_root


@click.command()
@click.argument("study", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--diff", "show_diff", is_flag=True, help="Say which cells the changed file would run again, and why.")
@click.option("--accept", is_flag=True, help="Make the changed file a revision of the frozen plan.")
@studies_option
@json_option
def command(study: Path, show_diff: bool, accept: bool, studies: Path | None, as_json: bool) -> None:
    """Freeze the design of STUDY (a study file) and print it: cells, order, digests, forecast. Needs no engine.

    A file that differs from the frozen plan is refused with the difference, until it is accepted as a revision.

    \b
    assay plan study.toml
    assay plan study.toml --diff
    assay plan study.toml --accept
    """
    from cells.design.study_file import load_study
    from flows.freezing import accept_revision, freeze_study, open_study, plan_diff
    from flows.plan_view import diff_document, diff_text, plan_document, plan_text
    from flows.planning import draft_plan
    from flows.status import read_state

    root = studies_root(studies)
    draft = draft_plan(load_study(study))
    name = draft.plan.study
    exists = (root / name / "ledger.jsonl").exists()
    if exists and (show_diff or accept):
        frozen = open_study(root, name)
        diff = plan_diff(frozen, draft)
        if not accept:
            emit(diff_document(diff), as_json=as_json, text=diff_text(diff))
            return
        accept_revision(frozen, draft, verdicts_seen=not read_state(frozen).is_open or _unblinded(frozen))
    frozen = open_study(root, name) if exists and accept else freeze_study(draft, root)
    state = read_state(frozen)
    emit(plan_document(state), as_json=as_json, text=plan_text(state))


def _unblinded(frozen: Any) -> bool:
    return any(row.kind == "unblinded" for row in frozen.store.ledger.rows())
