"""`assay run` from study file to summary: the composition root of a run.

Order: plan and refuse -> Prefect server starts in the background -> engine, leftovers of dead owners -> the study's
lock -> what an earlier run left -> schedule -> measure -> sweep -> state.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells.design.matrix import PlannedCell
from cells.design.study_file import load_study
from cells.evidence.digest import digest_json
from cells.evidence.history import Unit
from cells.evidence.locks import Busy
from cells.outcome import Verdict
from flows import prefect_server
from flows.admission import admit, available_memory_mb
from flows.board import Board
from flows.budget import over_budget
from flows.freezing import FrozenStudy, freeze_study
from flows.planning import draft_plan
from flows.prefect_home import enter_prefect
from flows.progress import Progress, shown
from flows.requests import clear_requests, requested
from flows.runtime import compile_programs, runtime_facts
from flows.selection import RunOptions, in_plan_order, select
from flows.services import endpoint_down, gateway_of, key_names, prefect_api
from flows.status import StudyState, read_state, schedule_of
from flows.summary import result_rows
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.gateway.client import GatewayProcess
from launchers.images import build_task_image, open_base_image
from launchers.layers.build import open_layer
from launchers.reaper import reap

Say = Callable[[str], None]


@dataclass(frozen=True)
class RunReport:
    """How a run ended."""

    state: StudyState
    errors: tuple[str, ...]
    interrupted: bool
    paused: str | None
    lost: tuple[PlannedCell, ...]

    @property
    def exit_code(self) -> int:
        """0 all selected cells have a valid result; 1 some have not; 130 interrupted or paused, resumable."""
        if self.interrupted or self.paused:
            return 130
        units = self.state.accepted.values()
        invalid = any(unit.detail["verdict"] == Verdict.INVALID.value for unit in units)
        return 1 if self.errors or self.lost or invalid or self.state.withheld else 0


@dataclass(frozen=True)
class _Tools:
    engine: Engine
    api_url: str
    studies: Path
    say: Say
    stop: threading.Event


def run_study(path: Path, studies: Path, options: RunOptions, say: Say) -> RunReport:
    """Run the study, or go on with it; a run of it that waits, paused, is told to go on instead (Busy otherwise)."""
    draft = draft_plan(load_study(path))
    chosen = select(draft.plan, options)
    study = freeze_study(draft, studies)
    with ExitStack() as stack:
        api_url = stack.enter_context(prefect_api(studies, options.prefect_api_url))
        engine = Engine.connect()
        stack.callback(engine.close)
        _enter_lock(stack, study, say)
        return _run(study, chosen, options, _Tools(engine, api_url, studies, say, threading.Event()))


def _enter_lock(stack: ExitStack, study: FrozenStudy, say: Say) -> None:
    try:
        stack.enter_context(study.store.writing())
    except Busy:
        if requested(study.store.path) == "pause":
            clear_requests(study.store.path)
            say("the paused run of this study was told to go on")
        raise


def _run(study: FrozenStudy, chosen: tuple[PlannedCell, ...], options: RunOptions, tools: _Tools) -> RunReport:
    clear_requests(study.store.path)
    reaped = reap(tools.engine)
    if reaped:
        tools.say(f"removed {len(reaped)} leftovers of dead owners from the engine")
    open_base_image(tools.engine, tools.say)
    compile_programs()
    facts = runtime_facts(tools.engine)
    study.store.check_runtime(digest_json(facts), accept_change=options.accept_runtime_change)
    with ExitStack() as stack:
        gateway = stack.enter_context(gateway_of(chosen))
        board = Board(study.store.path / "locks" / "running.json")
        stack.callback(board.close)
        enter_prefect(tools.studies, tools.api_url)
        from flows.cell import Parts, assemble

        run = assemble(
            Parts(
                study=study,
                sandboxes=DockerSandboxes(tools.engine, tools.studies / ".volumes"),
                gateway=gateway,
                build=lambda task: build_task_image(task, tools.engine, tools.say),
                layer=lambda name: open_layer(tools.engine, name, tools.say),
                board=board,
                stop=tools.stop,
                runtime=facts,
                secrets={name: os.environ[name] for name in key_names(chosen)},
                rows=lambda: result_rows(read_state(study)),
                accept_runtime_change=options.accept_runtime_change,
            )
        )
        for line in run.recovered:
            tools.say(line)
        return _measure(study, in_plan_order(study.plan, chosen), options, run, tools)


def _measure(study: FrozenStudy, cells: list[PlannedCell], options: RunOptions, run: Any, tools: _Tools) -> RunReport:
    from flows.measure import Halt, measure

    schedule = schedule_of(read_state(study), options.max_infra_retries, cells)
    admission = admit(options.workers, (cell.spec.limits for cell in cells), available_memory_mb())
    if admission.note:
        tools.say(admission.note)
    done = len(schedule.cells) - len(schedule.open_cells())
    progress = Progress(len(schedule.cells), done, tools.say, run.board.running)
    run.on_end = lambda unit: _ended(progress, unit)
    prefect_server.await_server_url(tools.api_url)
    halt = Halt(
        stop=tools.stop,
        why=lambda: why_paused(study, run.live_side.gateway),
        waits=lambda: requested(study.store.path) == "pause",
        tell=lambda reason: run.board.note(paused=reason),
    )
    with shown(progress):
        measure(run, schedule, admission.workers, halt)
    paused = why_paused(study, run.live_side.gateway) if schedule.open_cells() else None
    return RunReport(read_state(study), tuple(run.errors), tools.stop.is_set(), paused, schedule.lost_cells())


def why_paused(study: FrozenStudy, gateway: GatewayProcess | None) -> str | None:
    """Why no new cell may start: a request, the study's budget, or a model's endpoint that is down."""
    asked = requested(study.store.path)
    return f"asked to {asked}" if asked else over_budget(study) or endpoint_down(gateway)


def _ended(progress: Progress, unit: Unit) -> None:
    detail = unit.detail
    name = f"{detail['task']}/{detail['arm']}/{detail['sample']}"
    progress.ended(name, detail["outcome"], detail.get("cost"), detail.get("currency"))
