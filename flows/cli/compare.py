"""`assay compare`: paired statistics of two arms, or of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cells.errors import UsageError
from flows.cli.output import emit, find_study, json_option, studies_option

METHODS = ("auto", "cr2", "wild", "signflip", "percentile", "bca", "yuj")


@click.command()
@click.argument("study", required=False)
@click.option("--control", help="The arm that is compared against.")
@click.option("--treatment", help="The arm that is compared.")
@click.option("--outcome", "outcomes", multiple=True, help="A column of the cells table; more than once for more.")
@click.option("--from", "file", type=click.Path(path_type=Path), help="Compare a TSV, CSV or Parquet file instead.")
@click.option("--mapping", type=click.Path(path_type=Path), help="Which column of that file is what (TOML).")
@click.option("--interval", type=click.Choice(METHODS), help="Another method than the plan's.")
@click.option("--seed", type=click.IntRange(min=0), default=None, help="With --from: the seed of all draws (else 0).")
@click.option("--details", is_flag=True, help="With --json: tasks by name and every denominator, under `details`.")
@click.option("--markdown", is_flag=True, help="As Markdown, for a pull request.")
@click.option("--unblind", is_flag=True, help="Compare while cells are open; recorded in the ledger.")
@studies_option
@json_option
def command(
    study: str | None,
    file: Path | None,
    details: bool,
    markdown: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """The planned comparisons of STUDY; with --control and --treatment that one, marked exploratory unless planned.

    Which way is up: differences are treatment minus control, over tasks that have a value in both arms.

    \b
    assay compare quickstart
    assay compare quickstart --control control --treatment treatment --json
    assay compare --from outcomes.tsv --mapping outcomes.toml --interval yuj
    """
    if (study is None) == (file is None):
        raise UsageError("asked for " + ("nothing" if file is None else "both") + "; name a STUDY or --from FILE")
    if file is not None:
        report = _of_file(file, asked["mapping"], asked["interval"], asked["seed"])
    else:
        report = _of_study(str(study), (asked["control"], asked["treatment"], asked["outcomes"]), asked)
    document = report.as_json(details=details) if as_json else {}
    emit(document, as_json=as_json, text=report.as_markdown() if markdown else report.as_text())


def _of_file(file: Path, mapping: Path | None, interval: str | None, seed: int | None) -> Any:
    from scoring.compare import FileOptions, compare_file
    from scoring.statistics.interval import IntervalMethod

    if mapping is None:
        raise UsageError(f"{file}: which column is what? --mapping MAP.toml says it (docs/statistics.md)")
    return compare_file(file, mapping, FileOptions(seed=seed or 0, interval=IntervalMethod(interval or "auto")))


def _of_study(study: str, question: tuple[str | None, str | None, tuple[str, ...]], more: dict[str, Any]) -> Any:
    from flows.compare import Asked, compare_study
    from flows.freezing import open_study
    from flows.status import read_state

    if more["seed"] is not None:
        raise UsageError("--seed goes with --from; a study's seed is in its frozen plan")
    control, treatment, outcomes = question
    if (control is None) != (treatment is None):
        raise UsageError("asked for one arm; a comparison needs --control ARM and --treatment ARM")
    asked = None
    if control is not None and treatment is not None:
        asked = Asked(control, treatment, outcomes or ("resolved",))
    elif outcomes:
        raise UsageError("--outcome goes with --control ARM and --treatment ARM")
    directory = find_study(study, more["studies"])
    state = read_state(open_study(directory.parent, directory.name))
    return compare_study(state, asked, interval=more["interval"], unblind=more["unblind"])
