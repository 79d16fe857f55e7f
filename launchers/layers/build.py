"""Layers on the engine: found by the digest of all that decides them, filled once.

Rules:
1. One volume a layer, `assay-layer-<digest>`, labelled as no cell's, so that no reaper takes it; `prune` does.
2. A volume without its last file, layer.json, was left half filled: it is removed and filled again.
3. It is filled without network in a container of the base image, and read without running anything of it.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
from docker.errors import DockerException, NotFound

from cells.errors import InfraFailure
from cells.evidence.digest import digest_json, short
from cells.sandbox import Mount
from launchers.base_image import BaseImage
from launchers.engine import Engine
from launchers.image_build import INPUTS, REASON, InputArchive, Work, perform
from launchers.image_build_packages import BASE_PYTHON
from launchers.images import BUILD_LABEL, RECIPE_LABEL, ROLE_LABEL, one_at_a_time, open_base_image
from launchers.layers.fetch import fetch
from launchers.layers.layer import LAYER_MOUNT, Layer
from launchers.layers.recipe import LayerRecipe, load_layer_recipe

ROLE = "layer"
MARKER = "layer.json"
_MARKER_CAP = 1 << 20

Say = Callable[[str], None]


def open_layer(engine: Engine, name: str, say: Say = lambda line: None) -> Layer:
    """The layer, built where the engine does not hold it yet.

    Raises ImageBuildFailed when it cannot be built, InfraFailure when the engine fails.
    """
    recipe, base = load_layer_recipe(name), open_base_image(engine, say)
    key = digest_json({"v": 1, "recipe": recipe.sha256, "base": base.image_id})
    volume = f"assay-layer-{short(key)}"
    with one_at_a_time(key):
        held = _held(engine, volume, key, base)
        if held is None:
            say(f"building the layer of {name} {recipe.file.version}")
            _create(engine, volume, recipe, key)
            try:
                _fill(engine, volume, recipe, base)
            finally:
                held = _held(engine, volume, key, base)  # a volume that is not whole goes
    if held is None:
        raise InfraFailure(REASON, f"{name}: the engine lost the layer that was just filled")
    return Layer(
        name=name,
        version=recipe.file.version,
        volume=volume,
        recipe_sha256=recipe.sha256,
        content_sha256=str(held["content_sha256"]),
        bytes=int(held["bytes"]),
        files=int(held["files"]),
    )


def _create(engine: Engine, volume: str, recipe: LayerRecipe, key: str) -> None:
    labels = {ROLE_LABEL: ROLE, RECIPE_LABEL: recipe.sha256, BUILD_LABEL: key}
    try:
        engine.api.create_volume(name=volume, driver="local", labels=labels)
    except (DockerException, requests.RequestException) as error:
        raise InfraFailure(REASON, f"the engine did not make the volume {volume}: {error}") from error


def _fill(engine: Engine, volume: str, recipe: LayerRecipe, base: BaseImage) -> None:
    with tempfile.TemporaryDirectory(prefix="assay-layer-") as scratch, tempfile.TemporaryFile() as inputs:
        archive = InputArchive(inputs)
        archive.add_all(fetch(engine, base.image_id, recipe, Path(scratch)))
        request = {"name": recipe.file.name, "client": recipe.file.client, "python": BASE_PYTHON}
        archive.add(f"{INPUTS}/request.json".lstrip("/").encode(), 0o644, json.dumps(request).encode())
        archive.close()
        inputs.seek(0)
        mounts = (Mount(volume, LAYER_MOUNT, read_only=False),)
        perform(engine, Work(base.image_id, "layer", inputs, f"layer of {recipe.file.name}", mounts))


def _held(engine: Engine, volume: str, key: str, base: BaseImage) -> dict[str, Any] | None:
    """What the volume's last file says, None (and no volume) where there is no whole layer."""
    try:
        found = engine.api.inspect_volume(volume)
        marker = _marker(engine, volume, base)
        if (found.get("Labels") or {}).get(BUILD_LABEL) == key and marker is not None:
            return marker
        engine.api.remove_volume(volume)
    except NotFound:
        return None
    except (DockerException, requests.RequestException) as error:
        raise InfraFailure(REASON, f"the engine does not say what the volume {volume} holds: {error}") from error
    return None


def _marker(engine: Engine, volume: str, base: BaseImage) -> dict[str, Any] | None:
    mounts = [{"Type": "volume", "Source": volume, "Target": LAYER_MOUNT, "ReadOnly": True}]
    config = {"Image": base.image_id, "Cmd": ["true"], "HostConfig": {"Mounts": mounts, "NetworkMode": "none"}}
    created = engine.api.create_container_from_config(config)
    try:
        chunks, _ = engine.api.get_archive(created["Id"], f"{LAYER_MOUNT}/{MARKER}")
        content = b"".join(chunks)
    except NotFound:
        return None
    finally:
        engine.api.remove_container(created["Id"], force=True)
    if len(content) > _MARKER_CAP:
        raise InfraFailure(REASON, f"{MARKER} of {volume} is larger than {_MARKER_CAP} bytes")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        member = archive.next()
        stream = None if member is None or not member.isreg() else archive.extractfile(member)
        return None if stream is None else dict(json.loads(stream.read()))
