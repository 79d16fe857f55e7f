"""What a built task image is to those who run cells in it."""

from __future__ import annotations

from dataclasses import dataclass

WORKDIR_DEFAULT = "/workspace"
BASE_TREE = "/assay/base"
"""In the image: the task's base state as a fresh one-commit repository, root-owned; our first process copies it into
the work directory."""
COLLECTOR_GIT = "/assay/collector.git"
"""In the image: bare repository whose only commit holds the image's whole base tree, untracked files included; never
the agent's .git."""


@dataclass(frozen=True)
class TaskImage:
    """An image as built on this engine.

    `image_id` is the engine's content id; `head_tree`/`head_commit` what the agent sees as HEAD;
    `base_tree`/`base_commit` the collector's base.
    """

    task: str
    image_id: str
    recipe_sha256: str
    workdir: str
    head_commit: str
    head_tree: str
    base_commit: str
    base_tree: str
