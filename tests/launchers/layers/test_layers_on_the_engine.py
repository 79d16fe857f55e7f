"""Layers on a real engine: filled once, again when half, with the same bytes, and in need of nothing of an image."""

from __future__ import annotations

import json
import shutil

import pytest

from launchers.engine import Engine
from launchers.images import open_base_image
from launchers.layers.build import open_layer
from launchers.layers.layer import LAYER_MOUNT, PYTHON

pytestmark = [pytest.mark.engine, pytest.mark.full, pytest.mark.timeout(600)]
# Where Debian has its Python and every shared library: hidden, so that whoever needs them there fails.
HIDDEN = ("/usr/lib/python3.11", "/usr/lib/python3", "/usr/lib/x86_64-linux-gnu")
LOOK = """\
import json, os, ssl, sqlite3, sys
import minisweagent.models.litellm_model, tokenizers, yaml
files = {module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)}
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line and ".so" in line}
print(json.dumps({"files": sorted(files), "maps": sorted(maps), "path": sys.path, "environment": sorted(os.environ)}))
"""


@pytest.mark.skipif(shutil.which("npm") is None, reason="its package comes by npm, which is not here")
def test_a_half_filled_volume_is_filled_again_and_gives_the_same_bytes(engine: Engine) -> None:
    layer = open_layer(engine, "codex")
    assert open_layer(engine, "codex") == layer
    labels = engine.api.inspect_volume(layer.volume)["Labels"]
    assert (labels["assay.role"], labels["assay.recipe"]) == ("layer", layer.recipe_sha256)
    assert "assay.owner" not in labels  # else a reaper takes it
    engine.api.remove_volume(layer.volume)
    engine.api.create_volume(name=layer.volume, labels=labels)
    assert open_layer(engine, "codex") == layer


def test_a_layers_python_takes_nothing_from_the_image_and_leaves_nothing_to_what_it_starts(engine: Engine) -> None:
    layer, base = open_layer(engine, "mini-swe-agent"), open_base_image(engine)
    said = engine.client.containers.run(
        base.image_id,
        [*PYTHON, "-c", LOOK],
        mounts=[{"Type": "volume", "Source": layer.volume, "Target": LAYER_MOUNT, "ReadOnly": True}],
        tmpfs={**dict.fromkeys(HIDDEN, "size=1m"), "/tmp": "size=8m"},
        user="65532:65532",
        environment={"HOME": "/tmp", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        network_mode="none",
        read_only=True,
        remove=True,
        labels={"assay.role": "test"},
    )
    seen = json.loads(said.splitlines()[-1])
    for kind in ("files", "maps", "path"):
        assert seen[kind] and all(path.startswith(f"{LAYER_MOUNT}/") for path in seen[kind]), seen[kind]
    assert not {"PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD"} & set(seen["environment"])
