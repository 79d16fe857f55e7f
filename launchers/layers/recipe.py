"""Recipes of layers: a folder of data each, with the lock file of a package client.

Rule: a recipe's digest covers every byte of its folder, the programs that fill the volume, and the recipe of the base
image, in which it is filled and whose interpreter it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cells.errors import UsageError
from cells.evidence.digest import digest_bytes, digest_json
from cells.toml_file import load_toml
from launchers.base_image import load_recipe
from launchers.image_build import program_digest

PROGRAMS = ("layer", "layer_python", "frames")
_RelativePath = Annotated[str, Field(pattern=r"^[A-Za-z0-9@_][A-Za-z0-9@._/+-]*$")]


class LayerFile(BaseModel):
    """One file that the layer holds: where the client puts it, where it lies in the layer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: _RelativePath
    target: _RelativePath


class LayerFileList(BaseModel):
    """layer.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1]
    name: str
    version: str
    licence: str
    client: Literal["pip", "npm"]
    lock: _RelativePath = "package-lock.json"
    debian: tuple[str, ...] = ()
    """Packages with shared libraries that the wheels are linked against and the base image lacks."""
    omitted: tuple[str, ...] = ()
    """What its package asks for and the layer leaves out: for people, the lock file decides."""
    files: tuple[LayerFile, ...] = ()


@dataclass(frozen=True)
class LayerRecipe:
    """A recipe of ours; `folder` holds it."""

    file: LayerFileList
    folder: Path
    sha256: str


def layer_names() -> list[str]:
    """The layers that there are recipes for."""
    return sorted(path.name.replace("_", "-") for path in _root().iterdir() if (path / "layer.toml").is_file())


def load_layer_recipe(name: str) -> LayerRecipe:
    """The recipe of this name. UsageError lists what there is."""
    if name not in layer_names():
        raise UsageError(f"asked for the layer {name!r}; there are {', '.join(layer_names())}")
    folder = _root() / name.replace("-", "_")
    file, _ = load_toml(folder / "layer.toml", LayerFileList)
    digests = {path.name: digest_bytes(path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file()}
    key = {"v": 1, "files": digests, "programs": program_digest(*PROGRAMS), "base": load_recipe().sha256}
    return LayerRecipe(file, folder, digest_json(key))


def _root() -> Path:
    return Path(str(files("launchers.layers").joinpath("recipes")))
