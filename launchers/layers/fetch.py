"""What a layer is made of, fetched on the host by its own package clients, every file checked against the lock.

Rules:
1. pip fetches wheels with `--require-hashes`, npm checks the integrity of every package of its lock file.
2. Nothing that was fetched is run on the host: no install script, no build.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from cells.errors import InfraFailure
from launchers.base_image import load_recipe
from launchers.engine import Engine
from launchers.image_build import INPUTS, REASON, ImageBuildFailed
from launchers.image_build_packages import fetch_debs, pip_command, run_client, wheel_options
from launchers.layers.layer import LAYER_MOUNT
from launchers.layers.recipe import LayerRecipe

Item = tuple[bytes, int, bytes]
"""Path in the container without its first slash, mode, content."""


def fetch(engine: Engine, image: str, recipe: LayerRecipe, scratch: Path) -> Iterator[Item]:
    """The files that the layer is filled from, in a container of `image`.

    ImageBuildFailed with the client's words; InfraFailure without one.
    """
    if recipe.file.client == "pip":
        return chain(_debs(engine, image, recipe, scratch), _wheels(recipe, scratch))
    return _package_files(recipe, scratch)


def _debs(engine: Engine, image: str, recipe: LayerRecipe, scratch: Path) -> Iterator[Item]:
    fetched = fetch_debs(engine, image, recipe.file.debian, scratch / "debs")
    for name in fetched.digests:
        yield f"{INPUTS}/debs/{name}".lstrip("/").encode(), 0o644, (fetched.folder / name).read_bytes()


def _wheels(recipe: LayerRecipe, scratch: Path) -> Iterator[Item]:
    folder, architecture = scratch / "wheels", load_recipe().architecture
    lock = str(recipe.folder / recipe.file.lock)
    command = [*pip_command(), "download", "--dest", str(folder), *wheel_options(architecture), "--no-deps"]
    run_client(
        [*command, "--require-hashes", "--requirement", lock],
        f"pip could not fetch what {lock} asks for; see that this machine reaches its package index",
    )
    for path in sorted(folder.glob("*.whl")):
        yield f"{INPUTS}/wheels/{path.name}".lstrip("/").encode(), 0o644, path.read_bytes()


def _package_files(recipe: LayerRecipe, scratch: Path) -> Iterator[Item]:
    npm = shutil.which("npm")
    if npm is None:
        raise InfraFailure(REASON, f"the layer {recipe.file.name} comes as an npm package, and this machine has no npm")
    for name in ("package.json", recipe.file.lock):
        shutil.copyfile(recipe.folder / name, scratch / name)
    run_client(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", str(scratch / "cache")],
        f"npm could not fetch {recipe.file.name}; see that this machine reaches its package registry",
        scratch,
    )
    for row in recipe.file.files:
        path = scratch / row.source
        if path.is_symlink() or not path.is_file():
            raise ImageBuildFailed(f"{recipe.file.name}: its package has no plain file {row.source}", b"")
        yield f"{LAYER_MOUNT}/{row.target}".lstrip("/").encode(), 0o755, path.read_bytes()
