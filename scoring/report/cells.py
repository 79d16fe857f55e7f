"""The cells of a study inside the page: columns as inert JSON, and the empty table that the page's script fills.

Rules:
1. Columns are stored, not rows; a column of words holds each word once. 5,000 cells stay far below 3 MB.
2. Words are made printable here; the script puts them into the page as text and never as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scoring.report.contents import Row
from scoring.report.markup import Html, element, embedded_json, join
from scoring.statistics.printable import printable

_DIGEST = 12
WORDS = ("task", "arm", "outcome", "verdict", "reason", "patch", "contaminated", "repository", "model", "harness")
FILTERS = ("arm", "outcome", "verdict", "contaminated")
_SHOWN: tuple[tuple[str, str], ...] = (
    ("task", "task"),
    ("arm", "arm"),
    ("sample", "sample"),
    ("outcome", "outcome"),
    ("verdict", "verdict"),
    ("reason", "reason"),
    ("f2p_fraction", "F2P"),
    ("patch", "patch"),
    ("turns", "turns"),
    ("requests", "requests"),
    ("input_tokens", "tokens in"),
    ("output_tokens", "tokens out"),
    ("cost", "cost"),
    ("run_s", "run, s"),
    ("wall_s", "wall, s"),
    ("contaminated", "contaminated"),
    ("repository", "repository"),
    ("order", "place"),
    ("cell", "cell"),
    ("bundle", "bundle"),
)


def cells_section(rows: Sequence[Row], sets: Mapping[str, Sequence[str]]) -> Html:
    """Filters, table and data."""
    return join(
        element("div", id="cell-filters", class_="filters", hidden=True),
        element("p", id="cell-count", role="status", aria_live="polite"),
        element("div", element("table", id="cell-table"), class_="scroll", tabindex=0),
        element("div", id="cell-pages", class_="pages", hidden=True),
        element("noscript", element("p", "This table needs the page's own script. The same as Parquet: assay table.")),
        embedded_json(cells_document(rows, sets), "cell-data"),
    )


def cells_document(rows: Sequence[Row], sets: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Columns in the order in which they are shown, the names of filters, and the named sets of tasks."""
    records = [_record(row) for row in rows]
    return {
        "columns": [_column(key, title, [record[key] for record in records]) for key, title in _SHOWN],
        "filters": list(FILTERS),
        "sets": {name: [printable(task) for task in tasks] for name, tasks in sets.items()},
    }


def _record(row: Row) -> dict[str, Any]:
    contaminated = row["contaminated"]
    return {
        **{key: row.get(key) for key, _ in _SHOWN},
        "contaminated": None if contaminated is None else "yes" if contaminated else "no",
        "cost": None if row["cost"] is None else float(row["cost"]),
        "cell": _start(row["cell_id"]),
        "bundle": _start(row["bundle_sha256"]),
    }


def _start(digest: str | None) -> str | None:
    return None if digest is None else digest.removeprefix("sha256:")[:_DIGEST]


def _column(key: str, title: str, values: list[Any]) -> dict[str, Any]:
    if key in WORDS:
        words = sorted({printable(str(value)) for value in values if value is not None})
        places = {word: place for place, word in enumerate(words)}
        codes = [-1 if value is None else places[printable(str(value))] for value in values]
        return {"key": key, "title": title, "words": words, "codes": codes}
    if key in ("cell", "bundle"):
        return {"key": key, "title": title, "texts": [None if value is None else printable(value) for value in values]}
    return {"key": key, "title": title, "numbers": [_number(value) for value in values]}


def _number(value: Any) -> int | float | None:
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.6g}")
