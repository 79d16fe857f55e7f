"""`assay audit`: proves the boundary from the evidence, one line an attempt."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from flows.cli.output import emit, find_study, json_option, studies_option


@click.command()
@click.argument("study")
@studies_option
@json_option
@click.pass_context
def command(ctx: click.Context, study: str, studies: Path | None, as_json: bool) -> None:
    """Prove from the evidence of STUDY who could read what, and when (exit 4 on a violation).

    \b
    For every attempt: start/ is what it was at the start, live/ what it was at the seal, post/ came after it; the
    trace is what the wire record gives; every live decision is made again from its prefix, which holds no later row.

    \b
    assay audit quickstart
    assay audit quickstart --json
    """
    from cells.audit.attempt import audit_study

    directory = find_study(study, studies)
    audits = list(audit_study(directory))
    lines = [line for one in audits for line in (one.line(), *(_words(asdict(v)) for v in one.violations))]
    ok = all(one.ok for one in audits)
    document = {"ok": ok, "study": directory.name, "attempts": [asdict(one) | {"ok": one.ok} for one in audits]}
    summary = f"{len(audits)} attempts, {sum(one.ok for one in audits)} ok"
    emit(document, as_json=as_json, text="\n".join([*lines, summary]))
    ctx.exit(0 if ok else 4)


def _words(violation: dict[str, str]) -> str:
    return f"    {violation['kind']}  {violation['path']}: {violation['detail']}"
