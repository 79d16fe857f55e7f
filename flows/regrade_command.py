"""The engine, the lock and the images around a regrade."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cells.design.matrix import PlannedCell
from flows.freezing import FrozenStudy
from flows.image_shelf import ImageShelf
from flows.regrade import Change, Regrader
from flows.status import StudyState
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.images import build_task_image
from launchers.reaper import reap


def regrade_study(
    study: FrozenStudy, state: StudyState, cells: list[PlannedCell], say: Callable[[str], None]
) -> list[Change]:
    """Regrade these cells, holding the study's lock. EnvironmentFault without an engine, or when it is busy."""
    engine = Engine.connect()
    try:
        with study.store.writing():
            reap(engine)
            images = ImageShelf(lambda task: build_task_image(task, engine, say))
            return Regrader(study, DockerSandboxes(engine), images, threading.Event()).run(state, cells, say)
    finally:
        engine.close()
