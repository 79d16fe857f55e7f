"""Recipes of layers: whole lock files with digests, no host, digests that follow their bytes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from cells.errors import UsageError
from launchers.harnesses import HARNESSES
from launchers.layers import recipe
from launchers.layers.recipe import layer_names, load_layer_recipe


def test_there_is_a_recipe_for_every_layer_that_a_harness_names_and_no_other() -> None:
    assert set(layer_names()) == {one.layer for one in HARNESSES.values() if one.layer}
    with pytest.raises(UsageError, match="claude-code, codex, mini-swe-agent"):
        load_layer_recipe("mini")


@pytest.mark.parametrize("name", layer_names())
def test_a_lock_file_names_exact_versions_with_digests_and_no_host(name: str) -> None:
    loaded = load_layer_recipe(name)
    lock = (loaded.folder / loaded.file.lock).read_text()
    assert "://" not in lock
    if loaded.file.client == "pip":
        rows = lock.replace("\\\n", "").splitlines()
        assert all(re.fullmatch(r"[a-z0-9_.-]+==\S+\s+--hash=sha256:[0-9a-f]{64}", row, re.I) for row in rows)
        assert any(row.startswith(f"{name}=={loaded.file.version} ") for row in rows)
        assert not {row.split("==")[0] for row in rows} & set(loaded.file.omitted)
    else:
        packages = {key: value for key, value in json.loads(lock)["packages"].items() if key}
        assert packages and all(row["integrity"].startswith("sha512-") for row in packages.values())
        assert all(row["version"].startswith(loaded.file.version) for row in packages.values())


def test_every_byte_of_a_recipe_is_in_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "recipes"
    shutil.copytree(load_layer_recipe("codex").folder.parent, copy)
    before = load_layer_recipe("codex").sha256
    monkeypatch.setattr(recipe, "_root", lambda: copy)
    assert load_layer_recipe("codex").sha256 == before
    lock = copy / "codex" / "package-lock.json"
    lock.write_text(lock.read_text() + "\n")
    assert load_layer_recipe("codex").sha256 != before
