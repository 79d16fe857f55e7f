"""A whole study, checked: ledger chain, frozen design, every unit that the ledger says stands, and nothing else
under its folders.

Rules (30-evidence 18, 24, 27, 38-43, 48):
1. The check changes nothing and takes no lock; of a study that is being written it sees a moment.
2. A unit is right when it is a valid bundle, its claims hold, and its manifest is the one that the ledger's row binds:
   a consistent rewrite of members and manifest is caught by the ledger.
3. What lies among the units without a row is reported: a publisher that was killed before its row, or something
   planted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cells.errors import EvidenceError
from cells.evidence.bundle_checks import claim_problems
from cells.evidence.catalog import CATALOG, catalog_witness
from cells.evidence.design_binding import design_problems, is_purged, unbound
from cells.evidence.fs import FileSystem, Kind, read_plain
from cells.evidence.fs_real import REAL
from cells.evidence.history import History, Unit
from cells.evidence.ledger import LEDGER, Chain, chain_problems, read_chain
from cells.evidence.manifest import MANIFEST, Examined, examine_bundle
from cells.evidence.problem import Problem
from cells.evidence.quarantine import begun
from cells.evidence.units import units_below

_UNIT_FOLDERS = ("attempts", "verifications", "scores")


def read_study(path: Path, fs: FileSystem = REAL) -> Chain:
    """The ledger of a study as it is: its good rows, and what is wrong with the rest."""
    if fs.status(path / LEDGER) is None:
        return Chain((), None, 0, 0, problem=Problem(LEDGER, "ledger", "no ledger: nothing says what was published"))
    return read_chain(read_plain(fs, path / LEDGER))


def study_problems(path: Path, fs: FileSystem = REAL) -> tuple[list[Problem], int]:
    """What is wrong with a study, and how many bundles were checked."""
    chain = read_study(path, fs)
    problems = [*chain_problems(fs, path, chain), *catalog_witness(fs, path / CATALOG, chain)]
    design = design_problems(path, chain.rows, frozen=True, fs=fs)
    problems += design
    if not design and not is_purged(chain.rows):
        problems += unbound(path, chain.rows, fs)
    try:
        history = History.of(chain.rows)
    except EvidenceError as error:
        return [*problems, Problem(LEDGER, "ledger", f"its rows contradict each other: {error}")], 0
    checked = 0
    moved = {unit: entry.name for entry, unit, _, here in begun(path, chain.rows, fs) if here}
    for unit in history.units.values():
        if history.is_being_purged(unit.path):
            continue  # reported once, below
        if unit.stands and unit.path in moved and fs.status(path / unit.path) is None:
            problems.append(Problem(unit.path, "unfinished", f"quarantine/{moved[unit.path]}: `assay run` finishes it"))
        elif unit.stands:
            checked += 1
            problems += unit_problems(path, unit, fs)
        elif fs.status(path / unit.path) is not None:
            problems.append(
                Problem(unit.path, "rewritten", "the ledger says it is gone (purged or in quarantine); it is there")
            )
    problems += _stray_problems(path, history, fs)
    problems += [
        Problem(subject, "unfinished", "a purge began and did not end: run it again") for subject in history.purging
    ]
    return sorted(problems), checked


def unit_problems(study: Path, unit: Unit, fs: FileSystem = REAL) -> list[Problem]:
    """What is wrong with one unit of the ledger."""
    bundle = study / unit.path
    if fs.status(bundle) is None:
        return [Problem(unit.path, "lost", f"the ledger has it published ({unit.digest}); it is not there")]
    found = examine_bundle(bundle, fs)
    problems = [*found.problems, *_claims(bundle, found, fs)]
    if found.statement is not None:
        if found.digest != unit.digest:
            problems.append(Problem(MANIFEST, "rewritten", f"the ledger binds {unit.digest}, found {found.digest}"))
        ids = found.statement.ids
        if found.statement.kind != unit.kind or any(unit.detail.get(key) != value for key, value in ids.items()):
            problems.append(Problem(MANIFEST, "rewritten", "kind or ids differ from the ledger's row"))
    return [problem.below(unit.path) for problem in problems]


def bundle_problems(bundle: Path, fs: FileSystem = REAL) -> list[Problem]:
    """What is wrong with a bundle by itself: set, digests, core, and where these hold, its claims."""
    found = examine_bundle(bundle, fs)
    return [*found.problems, *_claims(bundle, found, fs)]


def _claims(bundle: Path, found: Examined, fs: FileSystem) -> list[Problem]:
    if found.problems or found.statement is None:
        return []
    return claim_problems(bundle, found.statement, fs)


def _stray_problems(path: Path, history: History, fs: FileSystem) -> Iterator[Problem]:
    for unit in units_below(fs, path):
        if unit not in history.units:
            yield Problem(
                unit, "unledgered", "a unit without a row: `assay run` records it when it is whole, or it was planted"
            )
    for cell in _entries(path / "cells", fs):
        if cell[1] is not Kind.DIRECTORY:
            yield Problem(f"cells/{cell[0]}", "extra", "only directories of cells belong here")
            continue
        for folder in _entries(path / "cells" / cell[0], fs):
            where = f"cells/{cell[0]}/{folder[0]}"
            if folder[0] not in _UNIT_FOLDERS or folder[1] is not Kind.DIRECTORY:
                yield Problem(where, "extra", f"only {', '.join(_UNIT_FOLDERS)} belong here")
                continue
            for unit_entry in _entries(path / where, fs):
                if unit_entry[1] is not Kind.DIRECTORY:
                    yield Problem(f"{where}/{unit_entry[0]}", "extra", "only directories of units belong here")


def _entries(path: Path, fs: FileSystem) -> list[tuple[str, Kind]]:
    status = fs.status(path)
    if status is None or status.kind is not Kind.DIRECTORY:
        return []
    tree = fs.tree(path)
    try:
        return [(entry.name, entry.kind) for entry in tree.entries()]
    finally:
        tree.close()
