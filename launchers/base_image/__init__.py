"""The base image of every cell: its recipe, its tag, and its build from Debian packages.

`python3 -m launchers.base_image --json` (standard library only) makes sure that the engine holds it.
"""

from launchers.base_image.build import BaseImage, ensure_base_image
from launchers.base_image.engine_api import EngineApi
from launchers.base_image.recipe import Recipe, load_recipe

__all__ = ["BaseImage", "EngineApi", "Recipe", "ensure_base_image", "load_recipe"]
