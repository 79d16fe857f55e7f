"""`assay table`: cells as Parquet."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import click

from flows.cli.output import emit, json_option


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="A file NAME.parquet; any other name is a folder, partitioned by study and arm.",
)
@click.option("--unblind", is_flag=True, help="Write verdicts of studies with open cells; recorded in their ledgers.")
@json_option
def command(paths: tuple[Path, ...], out: Path, unblind: bool, as_json: bool) -> None:
    """One row an accepted attempt, of each PATH: a study directory, a studies root, a table made earlier, or a file or
    folder of another tool (SWE-bench, mini-swe-agent, Inspect, Harbor, terminal-bench), told by its shape.

    Controls are in the table under their arm's name; comparisons never take them. Attempts that were withdrawn are
    left out and counted; a superseded one is replaced by its successor. Unknown is null.

    \b
    assay table studies/quickstart --out cells.parquet
    assay table studies/ earlier.parquet --out all-cells/
    assay table studies/quickstart logs/run_evaluation/r1 trial.eval --out mixed.parquet
    """
    from flows.tables import rows_of_studies, table_sources
    from flows.text import table
    from scoring.table_files import write_cells

    sources = table_sources(paths)
    studies = list(rows_of_studies(sources.studies, unblind=unblind))
    foreign = {path: read(path) for path, read in sources.foreign.items()}
    ours = (row for study in studies for row in study.rows)
    written = write_cells(chain(ours, *foreign.values()), sources.tables, out)
    records: list[dict[str, Any]] = [
        {
            "study": study.study,
            "rows": len(study.rows),
            "without_result": len(study.open_cells),
            "dropped": dict(study.dropped),
            "superseded": study.superseded,
            "blind": study.blind,
        }
        for study in studies
    ]
    document = {
        "out": str(out),
        "rows": written.rows,
        "repeated": written.repeated,
        "partitioned": written.partitioned,
        "studies": records,
        "tables": [str(path) for path in sources.tables],
        "others": [{"path": str(path), "rows": len(rows)} for path, rows in foreign.items()],
    }
    shown = [(one["study"], one["rows"], one["without_result"], len(one["dropped"]), one["blind"]) for one in records]
    text = f"{out}: {written.rows} rows ({written.repeated} given twice)"
    if shown:
        text += "\n\n" + table(("study", "rows", "without result", "dropped", "verdicts hidden"), shown)
    if foreign:
        text += "\n\n" + table(
            ("other tools' files", "rows"), [(str(path), len(rows)) for path, rows in foreign.items()]
        )
    emit(document, as_json=as_json, text=text)
