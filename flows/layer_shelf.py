"""Layers of a run: each opened (and built where it is missing) at most once, when the first cell of its harness needs
it; a failure loses only the cells of that harness.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from cells.errors import InfraFailure
from launchers.harnesses.registry import harness
from launchers.layers.layer import Layer

LayerBuilder = Callable[[str], Layer]


class LayerShelf:
    """Thread-safe memory of `build`; failures are remembered too."""

    def __init__(self, build: LayerBuilder) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._layers: dict[str, Layer | InfraFailure] = {}

    def layers(self, harness_name: str) -> tuple[Layer, ...]:
        """What the harness needs. InfraFailure with the build's log when it cannot be had."""
        name = harness(harness_name).layer
        if name is None:
            return ()
        with self._lock:
            found = self._layers.get(name)
            if found is None:
                found = self._layers[name] = self._built(name)
        if isinstance(found, InfraFailure):
            raise found
        return (found,)

    def _built(self, name: str) -> Layer | InfraFailure:
        try:
            return self._build(name)
        except InfraFailure as failure:
            return failure
