"""The post-run step of a cell: from the sealed attempt to the published bundle. It knows nothing of the live side.

Rules:
1. Every function here takes a `SealedAttempt`; what is already whole on disk is not done again.
2. The manifest is written last, one rename publishes, then the ledger says so (cells.evidence.units).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cells.attempt import SealedAttempt
from cells.design.matrix import PlannedCell
from cells.evidence.digest import digest_json
from cells.evidence.history import Unit
from cells.evidence.run_meta import RUN_META, RunFacts, build_run_meta
from cells.evidence.study_store import StudyStore
from cells.evidence.units import Stage, publish_unit
from cells.outcome import Ended, outcome_of
from cells.sandbox import Channel, SandboxFactory
from cells.tasks.frozen import FrozenTask
from cells.tasks.image import TaskImage
from flows.provenance import write_provenance
from scoring.post_run import PostResult, PostSettings, run_post
from scoring.table import cell_row

PhaseListener = Callable[[str], None]
_UNKNOWN_YET = ("bundle_sha256", "study", "cell_id", "attempt")


@dataclass(frozen=True)
class PostSide:
    """What all post-run steps of a run share."""

    store: StudyStore
    sandboxes: SandboxFactory
    stop: threading.Event
    runtime: Mapping[str, Any]
    settings: PostSettings
    publishing: threading.Lock = field(default_factory=threading.Lock)
    """One publisher at a time: the ledger has one writer."""

    def run(self, cell: PlannedCell, setting: PostSetting, on_phase: PhaseListener) -> Unit:
        """Collect, gate, verify, score and publish. VerifierInvalid never leaves here: it is the verdict `invalid`."""
        result = run_post(
            setting.sealed,
            setting.task,
            setting.image,
            self.sandboxes,
            collector=setting.collector,
            stop=self.stop,
            on_phase=on_phase,
            settings=self.settings,
        )
        on_phase("publish")
        return self._publish(cell, setting, result)

    def _publish(self, cell: PlannedCell, setting: PostSetting, result: PostResult) -> Unit:
        sealed = setting.sealed
        runtime = {**self.runtime, "image": setting.image.image_id, "layers": sealed.facts.get("layers") or []}
        write_provenance(sealed, setting.task, setting.image)
        facts = RunFacts(
            study=self.store.name,
            cell=cell.spec.directory,
            cell_id=cell.spec.cell_id,
            attempt=setting.stage.name,
            verdict=result.verdict.value,
            outcome=outcome_of(Ended(sealed.facts["ended"]), result.patch),
            runtime=runtime,
            more={"order": cell.order, "phase_s": setting.phase_s(), "reason": result.reason},
        )
        if not sealed.has(RUN_META):
            sealed.write(RUN_META, build_run_meta(setting.stage.path, facts), "publisher")
        with self.publishing:
            return publish_unit(self.store, setting.stage, "attempt", self._ids(cell, setting, facts))

    def _ids(self, cell: PlannedCell, setting: PostSetting, facts: RunFacts) -> dict[str, Any]:
        row = {key: value for key, value in cell_row(setting.stage.path).items() if key not in _UNKNOWN_YET}
        return {
            **row,
            "study": self.store.name,
            "cell": cell.spec.directory,
            "cell_id": cell.spec.cell_id,
            "attempt": setting.stage.name,
            "verdict": facts.verdict,
            "outcome": facts.outcome,
            "runtime": row["runtime_sha256"],
            "host": digest_json(dict(self.runtime)),
            "image": setting.image.image_id,
            "phase_s": facts.more["phase_s"],
            "slot_s": sum(facts.more["phase_s"].values()),
        }


@dataclass(frozen=True)
class PostSetting:
    """What one post-run step is given. `collector` is None when the attempt was collected before a crash."""

    stage: Stage
    sealed: SealedAttempt
    task: FrozenTask
    image: TaskImage
    collector: Channel | None
    phase_s: Callable[[], dict[str, float]]
