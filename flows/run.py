"""`assay run` from study file to summary: the composition root of a run.

Order: plan and refuse -> Prefect server starts in the background -> engine, leftovers of dead owners -> the study's
lock -> what an earlier run left -> schedule -> measure -> sweep -> state.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells.design.matrix import PlannedCell
from cells.design.study_file import load_study
from cells.design.study_model import NoiseSection
from cells.errors import UsageError
from cells.evidence.digest import digest_json
from cells.evidence.history import Unit
from cells.outcome import Verdict
from flows import prefect_server
from flows.admission import admit, available_memory_mb
from flows.board import Board
from flows.budget import over_budget
from flows.freezing import FrozenStudy, freeze_study
from flows.image_shelf import ImageShelf
from flows.planning import Draft, draft_plan
from flows.prefect_home import enter_prefect
from flows.progress import Progress, shown
from flows.requests import clear_requests, requested
from flows.runtime import runtime_facts
from flows.status import StudyState, read_state, schedule_of
from flows.summary import result_rows
from flows.task_memory import TaskMemory
from launchers.docker_sandbox import DockerSandboxes
from launchers.engine import Engine
from launchers.gateway.client import GatewayProcess
from launchers.images import build_task_image, open_base_image
from launchers.reaper import reap

Say = Callable[[str], None]
_LEASE_S = 30.0


@dataclass(frozen=True)
class RunOptions:
    """What the command line asks beyond the study file. None selects everything, or the default."""

    workers: int | None = None
    limit: int | None = None
    tasks: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    samples: tuple[int, ...] = ()
    max_infra_retries: int = 2
    accept_runtime_change: bool = False
    prefect_api_url: str | None = None


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


def run_study(path: Path, studies: Path, options: RunOptions, say: Say) -> RunReport:
    """Run the study, or go on with it."""
    draft = draft_plan(load_study(path))
    chosen = select(draft, options)
    study = freeze_study(draft, studies)
    with ExitStack() as stack:
        api_url = stack.enter_context(_prefect(studies, options.prefect_api_url))
        engine = Engine.connect()
        stack.callback(engine.close)
        stack.enter_context(study.store.writing())
        return _run(study, chosen, options, _Tools(engine, api_url, studies, say))


def select(draft: Draft, options: RunOptions) -> tuple[PlannedCell, ...]:
    """The cells that the options choose: controls of chosen tasks always among them. UsageError for unknown names."""
    cells = draft.plan.cells
    _known("task", options.tasks, {cell.spec.task for cell in cells})
    _known("arm", options.arms, {cell.spec.arm.name for cell in cells})
    _known("sample", options.samples, {cell.spec.sample for cell in cells})
    wanted = [cell for cell in cells if _is_chosen(cell, options)]
    if options.limit is None:
        return tuple(wanted)
    arms = [cell for cell in wanted if not cell.is_control][: options.limit]
    tasks = {cell.spec.task for cell in arms}
    controls = [cell for cell in wanted if cell.is_control and cell.spec.task in tasks]
    return (*controls, *arms)


@dataclass(frozen=True)
class _Tools:
    engine: Engine
    api_url: str
    studies: Path
    say: Say


def _run(study: FrozenStudy, chosen: tuple[PlannedCell, ...], options: RunOptions, tools: _Tools) -> RunReport:
    clear_requests(study.store.path)
    reaped = reap(tools.engine)
    if reaped:
        tools.say(f"removed {len(reaped)} leftovers of dead owners from the engine")
    open_base_image(tools.engine, tools.say)
    facts = runtime_facts(tools.engine)
    study.store.check_runtime(digest_json(facts), accept_change=options.accept_runtime_change)
    stop = threading.Event()
    with ExitStack() as stack:
        gateway = stack.enter_context(_gateway(chosen))
        board = Board(study.store.path / "locks" / "running.json")
        stack.callback(board.close)
        run = _cell_runner(study, chosen, options, _Parts(tools, gateway, board, facts, stop))
        for line in run.recovered:
            tools.say(line)
        return _measure(study, chosen, options, run, tools, stop)


@dataclass(frozen=True)
class _Parts:
    tools: _Tools
    gateway: GatewayProcess | None
    board: Board
    facts: Mapping[str, Any]
    stop: threading.Event


def _cell_runner(study: FrozenStudy, chosen: tuple[PlannedCell, ...], options: RunOptions, parts: _Parts) -> Any:
    enter_prefect(parts.tools.studies, parts.tools.api_url)
    from flows.cell import CellRunner
    from flows.live import LiveSide
    from flows.post_run import PostSide
    from flows.recovery import recover

    sandboxes = DockerSandboxes(parts.tools.engine)
    memory = TaskMemory(study.task)
    post_side = PostSide(study.store, sandboxes, parts.stop, parts.facts, _post_settings(study))
    recovered = recover(post_side, study.plan.cells)
    secrets = {name: os.environ[name] for name in _key_names(chosen)}
    images = ImageShelf(lambda task: build_task_image(task, parts.tools.engine, parts.tools.say))
    return CellRunner(
        study=study.plan.study,
        cells={cell.spec.cell_id: cell for cell in study.plan.cells},
        live_side=LiveSide(sandboxes, parts.gateway, parts.stop, study.script, secrets),
        post_side=post_side,
        images=images,
        board=parts.board,
        task_of=memory.task,
        rows=lambda: result_rows(read_state(study)),
        leftovers=recovered.resumable,
        task_images={str(u.detail["task"]): str(u.detail["image"]) for u in study.store.accepted().values()},
        accept_runtime_change=options.accept_runtime_change,
        recovered=recovered.done,
    )


def _post_settings(study: FrozenStudy) -> Any:
    from scoring.post_run import PostSettings

    return PostSettings(study=study.plan.study, noise=NoiseSection.model_validate(study.plan.design["noise"]))


def _measure(
    study: FrozenStudy,
    chosen: tuple[PlannedCell, ...],
    options: RunOptions,
    run: Any,
    tools: _Tools,
    stop: threading.Event,
) -> RunReport:
    from flows.measure import Halt, measure

    state = read_state(study)
    schedule = schedule_of(state, options.max_infra_retries, _in_plan_order(study, chosen))
    admission = admit(options.workers, (cell.spec.limits for cell in chosen), available_memory_mb())
    if admission.note:
        tools.say(admission.note)
    progress = Progress(
        len(schedule.cells), len(schedule.cells) - len(schedule.open_cells()), tools.say, run.board.running
    )
    run.on_end = lambda unit: _ended(progress, unit)
    prefect_server.await_server_url(tools.api_url)
    halt = Halt(stop, lambda: why_paused(study))
    with shown(progress):
        measure(run, schedule, admission.workers, halt)
    state = read_state(study)
    paused = why_paused(study) if schedule.open_cells() else None
    return RunReport(state, tuple(run.errors), stop.is_set(), paused, schedule.lost_cells())


def why_paused(study: FrozenStudy) -> str | None:
    """Why no new cell may start: a request, or the study's budget."""
    asked = requested(study.store.path)
    return f"asked to {asked}" if asked else over_budget(study)


def _ended(progress: Progress, unit: Unit) -> None:
    detail = unit.detail
    progress.ended(
        f"{detail['task']}/{detail['arm']}/{detail['sample']}",
        detail["outcome"],
        detail.get("cost"),
        detail.get("currency"),
    )


def _in_plan_order(study: FrozenStudy, chosen: tuple[PlannedCell, ...]) -> list[PlannedCell]:
    ids = {cell.spec.cell_id for cell in chosen}
    return [cell for cell in study.plan.cells if cell.spec.cell_id in ids]


def _is_chosen(cell: PlannedCell, options: RunOptions) -> bool:
    spec = cell.spec
    if options.tasks and spec.task not in options.tasks:
        return False
    if cell.is_control:
        return True
    return (not options.arms or spec.arm.name in options.arms) and (
        not options.samples or spec.sample in options.samples
    )


def _known(kind: str, asked: tuple[Any, ...], there: set[Any]) -> None:
    for name in asked:
        if name not in there:
            raise UsageError(f"asked for {kind} {name!r}; the study has {', '.join(map(str, sorted(there)))}")


@contextmanager
def _gateway(chosen: tuple[PlannedCell, ...]) -> Iterator[GatewayProcess | None]:
    if all(cell.spec.arm.model is None for cell in chosen):
        yield None
        return
    # A socket's path may have 107 bytes: a short directory of our own, not one below the studies root.
    with tempfile.TemporaryDirectory(prefix="assay-") as run_dir:
        with GatewayProcess.start(Path(run_dir), _key_names(chosen)) as gateway:
            yield gateway


def _key_names(chosen: tuple[PlannedCell, ...]) -> list[str]:
    models = [cell.spec.arm.model for cell in chosen if cell.spec.arm.model is not None]
    return sorted({str(model["api_key_env"]) for model in models if model.get("api_key_env")})


@contextmanager
def _prefect(studies: Path, api_url: str | None) -> Iterator[str]:
    """The Prefect API of this run; a local server's lease is renewed while the run lasts."""
    if api_url is not None:
        yield api_url
        return
    server = prefect_server.start_server(studies)
    ended = threading.Event()
    lease = threading.Thread(target=_renew_lease, args=(studies, ended), daemon=True)
    lease.start()
    try:
        yield server.api_url
    finally:
        ended.set()
        lease.join()


def _renew_lease(studies: Path, ended: threading.Event) -> None:
    while not ended.wait(_LEASE_S):
        prefect_server.touch_lease(studies)
