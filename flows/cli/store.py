"""What the life-cycle commands share: a study opened by name, its lock, and disk errors said like other errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cells.errors import EnvironmentFault
from flows.cli.output import find_study

if TYPE_CHECKING:
    from cells.evidence.study_store import StudyStore


@contextmanager
def opened(reference: str, studies: Path | None, *, writing: bool = False) -> Iterator[StudyStore]:
    """The store of a study by name, directory or file; with its lock when units are written. EnvironmentFault for
    the disk's errors."""
    from cells.evidence.roots import StudiesRoot
    from cells.evidence.study_store import StudyStore

    path = find_study(reference, studies)
    with disk_faults(path):
        store = StudyStore.open(StudiesRoot.open(path.parent), path.name)
        if not writing:
            yield store
            return
        with store.writing():
            yield store


@contextmanager
def disk_faults(path: Path) -> Iterator[None]:
    """Say an OSError as what it is for a person: the place, the reason, and that running it again goes on."""
    try:
        yield
    except OSError as error:
        place = error.filename or path
        raise EnvironmentFault(
            f"{place}: {error.strerror or error}; run the same command again when that is settled"
        ) from error
