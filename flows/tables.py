"""The cells of studies as rows of the cells table: what a table, a comparison and a report are made from.

Rules:
1. A row is an accepted attempt of a cell of the current plan: the newest of its chain, never one that was withdrawn,
   quarantined or purged, nor one made from such (those are counted).
2. While cells are open and nobody unblinded the study, the columns of the verdict are null.
3. A planned cell without a result is named too, so that a comparison counts it as missing; it is no row of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells.design.matrix import PlannedCell
from cells.errors import EvidenceError, UsageError
from cells.evidence.history import Unit
from cells.outcome import Verdict
from flows.freezing import open_study
from flows.regrades import regraded_columns
from flows.status import StudyState, read_state
from scoring.columns import NAMES
from scoring.interop.sources import FileReader, foreign_reader
from scoring.table import cell_row
from scoring.table_files import is_cells_table

HIDDEN = ("verdict", "reason", "resolved", "f2p_passed", "f2p_total", "f2p_fraction", "p2p_passed", "p2p_total")
"""Columns that are null while a study is blind."""

Row = dict[str, Any]
RowReader = Callable[[StudyState, PlannedCell, Unit], Row]


@dataclass(frozen=True)
class StudyRows:
    """The rows of one study, and what stands beside them."""

    study: str
    rows: tuple[Row, ...]
    """One an accepted attempt, controls too, in the order of the plan."""
    open_cells: tuple[Row, ...]
    """Planned cells without a result: their place in the design, verdict `not_run` where an attempt was lost."""
    controls: frozenset[str]
    """Arms that never enter a comparison."""
    dropped: Mapping[str, str]
    """Cell directory -> why its accepted attempt backs no claim any more."""
    superseded: int
    blind: bool

    @property
    def compared(self) -> list[Row]:
        """Rows of comparisons: no controls, missing cells in their places."""
        return [row for row in (*self.rows, *self.open_cells) if row["arm"] not in self.controls]


def is_blind(state: StudyState) -> bool:
    """Whether verdicts are to be hidden: cells are open, and the ledger knows of no unblinding."""
    return state.is_open and not any(row.kind == "unblinded" for row in state.study.store.ledger.rows())


def record_unblinding(state: StudyState, command: str) -> None:
    """Write into the ledger that verdicts were looked at while cells were open."""
    plan = state.study.plan
    state.study.store.ledger.append("unblinded", plan.file_name, plan.sha256, {"by": f"assay {command} --unblind"})


def row_of_bundle(state: StudyState, cell: PlannedCell, unit: Unit) -> Row:
    """The row from the files of the bundle. EvidenceError when the manifest is not the one that the ledger binds."""
    row = cell_row(state.study.store.bundle(unit))
    if row["bundle_sha256"] != unit.digest:
        raise EvidenceError(
            f"{unit.path}: its manifest has the digest {row['bundle_sha256']}, the ledger says {unit.digest}; "
            "`assay verify` says more"
        )
    return row | regraded_columns(unit)


def row_of_ledger(state: StudyState, cell: PlannedCell, unit: Unit) -> Row:
    """The same from the ledger's `published` row, which holds it; the bundle is read where an older one does not."""
    if "repository" not in unit.detail or "arm" not in unit.detail:
        return row_of_bundle(state, cell, unit)
    return {name: unit.detail.get(name) for name in NAMES} | {"bundle_sha256": unit.digest}


def study_rows(state: StudyState, read: RowReader = row_of_ledger, *, unblind: bool = False) -> StudyRows:
    """The rows of a study; `unblind` shows verdicts of a running one (the caller has recorded that)."""
    lost_claims = state.history.lost_claims()
    blind = is_blind(state) and not unblind
    rows, open_cells, dropped = [], [], {}
    for cell in state.cells:
        unit = state.unit(cell)
        if unit is not None and unit.path not in lost_claims:
            row = read(state, cell, unit)
            rows.append(row | dict.fromkeys(HIDDEN) if blind else row)
            continue
        if unit is not None:
            dropped[cell.spec.directory] = lost_claims[unit.path]
        open_cells += _open_cell(state, cell)
    return StudyRows(
        study=state.study.plan.study,
        rows=tuple(rows),
        open_cells=tuple(open_cells),
        controls=frozenset(cell.spec.arm.name for cell in state.cells if cell.is_control),
        dropped=dropped,
        superseded=sum(unit.path != state.history.accepted[cell] for cell, unit in state.accepted.items()),
        blind=blind,
    )


def studies_below(path: Path) -> list[Path]:
    """The study directories that a PATH stands for: itself, or those of a studies root."""
    if (path / "study.json").is_file():
        return [path.absolute()]
    return sorted(found.parent.absolute() for found in path.glob("*/study.json"))


@dataclass(frozen=True)
class TableSources:
    """PATHs of `assay table`, each once and in their order."""

    studies: tuple[Path, ...]
    tables: tuple[Path, ...]
    foreign: Mapping[Path, FileReader]
    """Files and folders of other tools, with the reader of their format."""


def table_sources(paths: tuple[Path, ...]) -> TableSources:
    """PATHs by what they are. UsageError for anything that is neither ours nor a format of `scoring.interop`."""
    studies: dict[Path, None] = {}
    tables: dict[Path, None] = {}
    foreign: dict[Path, FileReader] = {}
    for path in paths:
        below = studies_below(path) if path.is_dir() else []
        if below:
            studies |= dict.fromkeys(below)
        elif is_cells_table(path):
            tables[path.absolute()] = None
        elif reader := foreign_reader(path):
            foreign[path.absolute()] = reader
        else:
            raise UsageError(
                f"{path}: asked for a study directory, a studies root, a cells table (Parquet), or a file of another "
                "tool (docs/interop.md); found " + ("none of them" if path.exists() else "nothing there")
            )
    return TableSources(tuple(studies), tuple(tables), foreign)


def rows_of_studies(studies: Sequence[Path], *, unblind: bool) -> Iterator[StudyRows]:
    """The rows of each study from its bundles; an unblinding of an open one is recorded first."""
    for directory in studies:
        state = read_state(open_study(directory.parent, directory.name))
        if unblind and is_blind(state):
            record_unblinding(state, "table")
        yield study_rows(state, row_of_bundle, unblind=unblind)


def _open_cell(state: StudyState, cell: PlannedCell) -> list[Row]:
    """The place of a cell without a result; nothing for a task that its control keeps out of the study."""
    spec = cell.spec
    if spec.task in state.withheld:
        return []
    lost = any(unit.kind == "lost_attempt" and unit.cell == spec.directory for unit in state.history.units.values())
    known = {
        "study": state.study.plan.study,
        "cell_id": spec.cell_id,
        "task": spec.task,
        "repository": state.study.plan.task(spec.task).repository,
        "arm": spec.arm.name,
        "harness": spec.arm.harness,
        "sample": spec.sample,
        "order": cell.order,
        "verdict": Verdict.NOT_RUN.value if lost else None,
    }
    return [dict.fromkeys(NAMES) | known]
