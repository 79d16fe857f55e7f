"""One cell, both sides of the seal: the only module that joins live and post-run. Two Prefect tasks a cell.

Rules:
1. Ids pass between the tasks, never contents: stage, seal and collector of a cell stay in this process.
2. The live step ends with a seal or with a loss; only a sealed attempt gets a post-run step.
3. An attempt that was sealed and collected before a crash goes on at its first missing post-run step.
4. What fails for an unknown reason is lost (live) or left open (post-run), never scored.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from prefect import task
from prefect.cache_policies import NO_CACHE

from cells.attempt import SealedAttempt, open_sealed
from cells.design.matrix import PlannedCell
from cells.design.study_model import NoiseSection
from cells.errors import AssayError, EvidenceError, InfraFailure, Interrupted
from cells.evidence.history import Unit
from cells.evidence.units import Stage, begin_attempt
from cells.outcome import Verdict
from cells.sandbox import SandboxFactory
from cells.tasks.frozen import FrozenTask
from cells.tasks.image import TaskImage
from flows.board import Board
from flows.freezing import FrozenStudy
from flows.image_shelf import Builder, ImageShelf
from flows.layer_shelf import LayerBuilder, LayerShelf
from flows.live import LiveSetting, LiveSide
from flows.losses import publish_loss
from flows.post_run import PostSetting, PostSide
from flows.recovery import recover
from flows.task_memory import TaskMemory
from launchers.live_request import CollectorHandle, Gateway
from scoring.post_run import PostSettings

log = logging.getLogger("assay.cell")
runners: dict[str, CellRunner] = {}
"""Runs of this process by token: how a Prefect task finds its run without carrying it."""


@task(name="live", persist_result=False, cache_policy=NO_CACHE, log_prints=False)
def live(token: str, cell_id: str) -> None:
    """Everything up to the seal."""
    runners[token].live(cell_id)


@task(name="post-run", persist_result=False, cache_policy=NO_CACHE, log_prints=False)
def post_run(token: str, cell_id: str) -> None:
    """From the sealed attempt to the published bundle."""
    runners[token].post(cell_id)


@dataclass
class _Open:
    """A cell between its two steps."""

    stage: Stage
    sealed: SealedAttempt
    collector: CollectorHandle | None
    live_s: dict[str, float]


@dataclass
class CellRunner:
    """The cells of one run of a study."""

    study: str
    cells: dict[str, PlannedCell]
    """by cell id"""
    live_side: LiveSide
    post_side: PostSide
    images: ImageShelf
    board: Board
    task_of: Callable[[str], FrozenTask]
    rows: Callable[[], list[dict[str, Any]]]
    leftovers: dict[str, Stage] = field(default_factory=dict)
    """Stages of an earlier run that can be resumed, by cell id."""
    task_images: dict[str, str] = field(default_factory=dict)
    """Image id on which accepted cells of a task ran."""
    accept_runtime_change: bool = False
    recovered: tuple[str, ...] = ()
    """What was done about an earlier run's leftovers, for people."""
    on_end: Callable[[Unit], None] = lambda unit: None
    """Told of every attempt that was published, lost ones too."""
    token: str = field(default_factory=lambda: uuid4().hex)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._verdicts: dict[str, Verdict] = {}

    def live(self, cell_id: str) -> None:
        """Run the cell to its seal, or pick up the stage of an earlier run. A loss is published and remembered."""
        cell = self.cells[cell_id]
        if (stage := self.leftovers.pop(cell_id, None)) is not None:
            self._open[cell_id] = _Open(stage, open_sealed(stage.path), None, {})
            return
        stage = begin_attempt(self.post_side.store, cell.spec.directory, {"cell_id": cell_id, "order": cell.order})
        self.board.enter(cell.spec.directory, stage.name, "prepare")
        try:
            self._open[cell_id] = self._run_live(cell, stage)
        except Interrupted:
            self._give_up(cell, stage, InfraFailure("interrupted", "the run was stopped"))
        except InfraFailure as failure:
            self._lose(cell, stage, failure)
        except EvidenceError as error:
            self._report(cell, error)
            self._give_up(cell, stage, InfraFailure("refused", str(error)))
            self.live_side.stop.set()
        except Exception as error:  # noqa: BLE001 (rule 4: an unknown failure is a loss, with its traceback)
            self._lose(cell, stage, InfraFailure("internal_error", "".join(traceback.format_exception(error))))

    def post(self, cell_id: str) -> None:
        """Take the sealed attempt to its bundle."""
        cell, opened = self.cells[cell_id], self._open.pop(cell_id)
        name = cell.spec.directory
        try:
            unit = self.post_side.run(cell, self._post_setting(cell, opened), self._phases(name, opened.stage.name))
            self._verdicts[cell_id] = Verdict(unit.detail["verdict"])
            self.on_end(unit)
        except Interrupted:
            pass
        except InfraFailure as failure:
            self._lose(cell, opened.stage, failure)
        except Exception as error:  # noqa: BLE001 (rule 4: the stage stays, the next run resumes it)
            self._report(cell, error)
        finally:
            if opened.collector is not None:
                opened.collector.close()
            opened.stage.release()
            self.board.leave(name)

    def is_sealed(self, cell: PlannedCell) -> bool:
        """Whether the live step left something to collect."""
        return cell.spec.cell_id in self._open

    def take_verdict(self, cell: PlannedCell) -> Verdict | None:
        """The verdict of the attempt that ended, NOT_RUN for a loss, None when the cell stays open."""
        return self._verdicts.pop(cell.spec.cell_id, None)

    def failed(self, cell: PlannedCell, error: Exception) -> None:
        """A step of this cell failed outside our own handling; the cell stays open."""
        self.board.leave(cell.spec.directory)
        self._report(cell, error)

    def result_rows(self) -> list[dict[str, Any]]:
        """The result table, for the artifact of the flow run."""
        return self.rows()

    def _run_live(self, cell: PlannedCell, stage: Stage) -> _Open:
        frozen = self.task_of(cell.spec.task)
        image = self.images.image(frozen)
        self._refuse_other_image(cell, image)
        setting = LiveSetting(
            task=frozen.live(),
            image=image,
            attempt=stage.name,
            stage=stage.path,
            oracle_patch=frozen.gold_patch() if cell.spec.arm.control == "oracle" else None,
        )
        result = self.live_side.run(cell, setting, self._phases(cell.spec.directory, stage.name))
        return _Open(stage, result.sealed, result.collector, self.board.seconds(cell.spec.directory))

    def _refuse_other_image(self, cell: PlannedCell, image: TaskImage) -> None:
        """A task's cells run on one image, unless a change of the runtime was accepted."""
        known = self.task_images.setdefault(cell.spec.task, image.image_id)
        if known != image.image_id and not self.accept_runtime_change:
            raise EvidenceError(
                f"task {cell.spec.task}: its cells ran on image {known}, it was built again as {image.image_id}; "
                "mixed runtimes need --accept-runtime-change, and the report then says so"
            )

    def _post_setting(self, cell: PlannedCell, opened: _Open) -> PostSetting:
        frozen = self.task_of(cell.spec.task)
        return PostSetting(
            stage=opened.stage,
            sealed=opened.sealed,
            task=frozen,
            image=self.images.image(frozen),
            collector=opened.collector.channel if opened.collector else None,
            phase_s=lambda: self._seconds(cell, opened),
        )

    def _seconds(self, cell: PlannedCell, opened: _Open) -> dict[str, float]:
        measured = self.board.seconds(cell.spec.directory)
        live_s = (
            {} if opened.collector else {k: float(v) for k, v in (opened.sealed.facts.get("timings") or {}).items()}
        )
        return {phase: round(seconds, 4) for phase, seconds in {**live_s, **measured}.items()}

    def _phases(self, cell: str, attempt: str) -> Callable[[str], None]:
        return lambda phase: self.board.enter(cell, attempt, phase)

    def _lose(self, cell: PlannedCell, stage: Stage, failure: InfraFailure) -> None:
        self._give_up(cell, stage, failure)
        self._verdicts[cell.spec.cell_id] = Verdict.NOT_RUN
        self.errors.append(f"{cell.spec.directory} {stage.name} lost: {failure.reason}: {_first_line(failure.detail)}")

    def _give_up(self, cell: PlannedCell, stage: Stage, failure: InfraFailure) -> None:
        try:
            self.on_end(publish_loss(self.post_side, cell, stage, failure))
        except (AssayError, OSError) as error:
            self._report(cell, error)
        finally:
            stage.release()
            self.board.leave(cell.spec.directory)

    def _report(self, cell: PlannedCell, error: Exception) -> None:
        text = str(error) if isinstance(error, AssayError) else "".join(traceback.format_exception(error))
        log.error("%s: %s", cell.spec.directory, text)
        self.errors.append(f"{cell.spec.directory}: {_first_line(str(error)) or type(error).__name__}")


@dataclass(frozen=True)
class Parts:
    """What a run hands to its cells."""

    study: FrozenStudy
    sandboxes: SandboxFactory
    gateway: Gateway | None
    build: Builder
    layer: LayerBuilder
    board: Board
    stop: threading.Event
    runtime: Mapping[str, Any]
    secrets: Mapping[str, str]
    rows: Callable[[], list[dict[str, Any]]]
    accept_runtime_change: bool = False


def assemble(parts: Parts) -> CellRunner:
    """The runner of a study's cells, with what an earlier run left settled or ready to be resumed."""
    study = parts.study
    noise = NoiseSection.model_validate(study.plan.design["noise"])
    settings = PostSettings(study=study.plan.study, seed=study.plan.seed, noise=noise)
    post_side = PostSide(study.store, parts.sandboxes, parts.stop, parts.runtime, settings)
    recovered = recover(post_side, study.plan.cells)
    return CellRunner(
        study=study.plan.study,
        cells={cell.spec.cell_id: cell for cell in study.plan.cells},
        live_side=LiveSide(
            parts.sandboxes, parts.gateway, parts.stop, study.script, parts.secrets, LayerShelf(parts.layer)
        ),
        post_side=post_side,
        images=ImageShelf(parts.build),
        board=parts.board,
        task_of=TaskMemory(study.task).task,
        rows=parts.rows,
        leftovers=recovered.resumable,
        recovered=recovered.done,
        task_images={str(unit.detail["task"]): str(unit.detail["image"]) for unit in study.store.accepted().values()},
        accept_runtime_change=parts.accept_runtime_change,
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else ""
