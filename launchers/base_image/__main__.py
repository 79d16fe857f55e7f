"""`python3 -m launchers.base_image [--json] [--tag]`: the base image on the engine, made where it is missing."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence

from cells.errors import EnvironmentFault
from launchers.base_image.build import ensure_base_image
from launchers.base_image.engine_api import EngineApi
from launchers.base_image.recipe import load_recipe


def main(arguments: Sequence[str]) -> int:
    """Print tag and image id; exit 0, or 3 where the machine cannot hold or make the image."""
    parser = argparse.ArgumentParser(prog="launchers.base_image", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--tag", action="store_true", help="only print the tag; no engine is asked")
    options = parser.parse_args(arguments)
    recipe = load_recipe()
    if options.tag:
        print(recipe.tag)
        return 0
    try:
        image = ensure_base_image(
            EngineApi.from_environment(os.environ), recipe, lambda line: print(line, file=sys.stderr)
        )
    except EnvironmentFault as fault:
        print(f"base image: {fault}", file=sys.stderr)
        return fault.exit_code
    print(json.dumps(dataclasses.asdict(image)) if options.json else f"{image.tag} {image.image_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
