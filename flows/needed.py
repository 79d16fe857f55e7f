"""Which image recipes the studies of a root need."""

from __future__ import annotations

from pathlib import Path

from cells.evidence.roots import StudiesRoot
from flows.freezing import open_study
from launchers.base_image import load_recipe


def needed_recipes(studies: Path) -> set[str]:
    """Recipe digests of every task of every study, and of the base image."""
    base = load_recipe().sha256
    if not (studies / "root.json").exists():
        return {base}
    root = StudiesRoot.open(studies)
    plans = [open_study(studies, path.name).plan for path in root.studies()]
    return {base, *(task.recipe_sha256 for plan in plans for task in plan.tasks)}
