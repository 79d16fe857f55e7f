"""Which recipes of images and layers the studies of a root need."""

from __future__ import annotations

from pathlib import Path

from cells.evidence.roots import StudiesRoot
from flows.freezing import open_study
from launchers.base_image import load_recipe
from launchers.harnesses.registry import HARNESSES
from launchers.layers.recipe import load_layer_recipe


def needed_recipes(studies: Path) -> set[str]:
    """Recipe digests of every task of every study, of the software of its harnesses, and of the base image."""
    base = load_recipe().sha256
    if not (studies / "root.json").exists():
        return {base}
    root = StudiesRoot.open(studies)
    plans = [open_study(studies, path.name).plan for path in root.studies()]
    used = {cell.spec.arm.harness for plan in plans for cell in plan.cells}
    layers = {HARNESSES[name].layer for name in used if name in HARNESSES} - {None}
    tasks = {task.recipe_sha256 for plan in plans for task in plan.tasks}
    return {base, *tasks, *(load_layer_recipe(str(name)).sha256 for name in layers)}
