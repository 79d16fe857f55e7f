"""`assay doctor`: is this machine fit to measure?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from flows.cli.output import emit, json_option, studies_option, studies_root


@click.command()
@click.argument("study", required=False, type=click.Path(path_type=Path, dir_okay=False))
@studies_option
@json_option
@click.pass_context
def command(ctx: click.Context, study: Path | None, studies: Path | None, as_json: bool) -> None:
    """Check engine, images, disk, locks, clock and leftovers; with a study file also its keys (never their values).

    \b
    assay doctor
    assay doctor my-study/study.toml
    """
    from cells.design.study_file import load_study
    from flows.doctor import examine, worst

    models = load_study(study).file.models.values() if study else ()
    keys = tuple(sorted({model.api_key_env for model in models if model.api_key_env}))
    checks = examine(studies_root(studies), keys)
    lines = [
        f"{check.state:4}  {check.name:16} {check.found}" + (f"\n      -> {check.advice}" if check.advice else "")
        for check in checks
    ]
    state = worst(checks)
    emit({"state": state, "checks": [asdict(check) for check in checks]}, as_json=as_json, text="\n".join(lines))
    ctx.exit(3 if state == "fail" else 0)
