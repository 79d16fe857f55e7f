"""Real cells for post-run tests: a command as harness, run to the seal by the live side."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cells.attempt import SealedAttempt
from cells.design.cell import ArmContent, CellLimits, CellSpec
from cells.sandbox import Channel
from launchers.live_request import LiveRequest, LiveTools
from launchers.run_cell import run_live
from scoring.post_run import PostResult, run_post
from tests.scoring.attempts import LIMITS
from tests.scoring.calc_task import Bench


@contextmanager
def live_cell(bench: Bench, stage: Path, script: str, **limits: Any) -> Iterator[tuple[SealedAttempt, Channel]]:
    """A cell whose agent is a shell script in the work directory: sealed, its collector still there."""
    settings = {"command": ["sh", "-c", script], "stdin": "none", "gather": [], "env": {}}
    arm = ArmContent("control", "command", None, None, settings)
    found = TypeAdapter(CellLimits).validate_python({**LIMITS, **limits})
    task = bench.task
    spec = CellSpec("tests", task.id, task.sha256, task.recipe_sha256, arm, found, 1)
    request = LiveRequest(spec=spec, task=task.live(), image=bench.image, attempt="a001", stage=stage)
    tools = LiveTools(bench.sandboxes, None, threading.Event(), lambda phase: None)
    result = run_live(request, tools)
    try:
        yield result.sealed, result.collector.channel
    finally:
        result.collector.close()


def post(bench: Bench, sealed: SealedAttempt, collector: Channel | None) -> PostResult:
    """The post-run side of it."""
    return run_post(sealed, bench.task, bench.image, bench.sandboxes, collector=collector, stop=threading.Event())
