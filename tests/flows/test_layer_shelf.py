"""Layers of a run: opened once, by harness, with failures remembered."""

from __future__ import annotations

import pytest

from cells.errors import InfraFailure
from flows.layer_shelf import LayerShelf
from launchers.layers.layer import Layer


def test_a_layer_is_opened_once_and_only_for_a_harness_that_needs_one() -> None:
    asked: list[str] = []

    def build(name: str) -> Layer:
        asked.append(name)
        return Layer(name, "1", "volume", "sha256:1", "sha256:2", 1, 1)

    shelf = LayerShelf(build)
    assert shelf.layers("reference") == () and asked == []
    assert shelf.layers("codex") == shelf.layers("codex") and len(shelf.layers("codex")) == 1
    assert asked == ["codex"]


def test_a_failure_is_remembered() -> None:
    asked: list[str] = []

    def build(name: str) -> Layer:
        asked.append(name)
        raise InfraFailure("image_build", "no index")

    shelf = LayerShelf(build)
    for _ in range(2):
        with pytest.raises(InfraFailure, match="no index"):
            shelf.layers("claude-code")
    assert asked == ["claude-code"]
