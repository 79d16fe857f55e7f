"""A built layer: which volume holds it, and what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cells.sandbox import Mount

LAYER_MOUNT = "/assay/layer"
_SYSTEM = f"{LAYER_MOUNT}/lib/system"
PYTHON = (f"{_SYSTEM}/loader", "--library-path", _SYSTEM, f"{LAYER_MOUNT}/bin/python3", "-I", "-B")
"""argv of the interpreter of a layer that has one: its own program, standard library, C library and loader. Nothing of
it stands in the environment, so what it starts uses the image's own."""


@dataclass(frozen=True)
class Layer:
    """A layer that the engine holds."""

    name: str
    version: str
    volume: str
    recipe_sha256: str
    content_sha256: str
    """Over path, mode and content of every file."""
    bytes: int
    files: int

    def mount(self) -> Mount:
        """Its place in an agent container: read-only."""
        return Mount(self.volume, LAYER_MOUNT)

    def facts(self) -> dict[str, Any]:
        """What records say of it. The volume is a name of this machine and no part of it."""
        return {
            "name": self.name,
            "version": self.version,
            "recipe_sha256": self.recipe_sha256,
            "content_sha256": self.content_sha256,
        }
