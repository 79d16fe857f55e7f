"""What all commands share: where studies lie, how a study or cell is named, and how a result is printed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cells.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

json_option: Callable[[Command], Command] = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout and nothing else there."
)
studies_option: Callable[[Command], Command] = click.option(
    "--studies",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where studies lie (else $ASSAY_STUDIES, else ./studies).",
)


def studies_root(given: Path | None) -> Path:
    """The directory of studies: option, then environment, then ./studies."""
    return Path(given or os.environ.get("ASSAY_STUDIES") or "studies").absolute()


def find_study(reference: str, studies: Path | None) -> Path:
    """The directory of a study given by name, by directory or by its study file. UsageError when there is none."""
    root = studies_root(studies)
    given = Path(reference)
    if given.is_dir() and (given / "study.json").is_file():
        return given.absolute()
    name = _name_in(given) if given.suffix == ".toml" else reference
    if (root / name / "study.json").is_file():
        return root / name
    there = sorted(path.parent.name for path in root.glob("*/study.json")) if root.is_dir() else []
    found = f"studies there: {', '.join(there)}" if there else "there are no studies there"
    raise UsageError(f"asked for the study {reference!r}; looked in {root}; {found}. `assay plan STUDY.toml` makes one")


def emit(document: Any, *, as_json: bool, text: str) -> None:
    """Print a result: the JSON document, or the text for people."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False) if as_json else text)


def _name_in(path: Path) -> str:
    from cells.design.study_file import load_study

    return load_study(path).file.study.name
