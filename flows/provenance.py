"""provenance/: where task, image and harness software of an attempt come from, and under which licences."""

from __future__ import annotations

from dataclasses import asdict

from cells.attempt import SealedAttempt
from cells.evidence.digest import canonical_json
from cells.tasks.frozen import FrozenTask
from cells.tasks.image import TaskImage

VERSION = 1


def write_provenance(sealed: SealedAttempt, task: FrozenTask, image: TaskImage) -> None:
    """Write provenance/task.json, image.json and, for a harness with software of its own, layers.json; once."""
    file = task.task.file
    origin = {
        "v": VERSION,
        "id": task.id,
        "repository": task.repository,
        "sha256": task.sha256,
        "licence": file.licence,
        "source": file.source,
    }
    _once(sealed, "provenance/task.json", canonical_json(origin))
    _once(sealed, "provenance/image.json", canonical_json({"v": VERSION, **asdict(image)}))
    layers = sealed.facts.get("layers")
    if layers:
        _once(sealed, "provenance/layers.json", canonical_json({"v": VERSION, "layers": layers}))


def _once(sealed: SealedAttempt, name: str, content: bytes) -> None:
    if not sealed.has(name):
        sealed.write(name, content, "planner")
