"""The live step of a cell: everything up to the seal. It knows no post-run code and no path of a verifier pack."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cells.design.cell import CellSpec
from cells.design.matrix import PlannedCell
from cells.sandbox import SandboxFactory
from cells.tasks.frozen import LiveTask
from cells.tasks.image import TaskImage
from flows.layer_shelf import LayerShelf
from launchers.live_request import Gateway, LiveRequest, LiveResult, LiveTools
from launchers.run_cell import run_live

PhaseListener = Callable[[str], None]


@dataclass(frozen=True)
class LiveSide:
    """What all live steps of a run share."""

    sandboxes: SandboxFactory
    gateway: Gateway | None
    stop: threading.Event
    script: Callable[[str], Path]
    """Frozen script by digest."""
    secrets: Mapping[str, str]
    """Values of keys by name: scrubbed from whatever a cell wrote."""
    shelf: LayerShelf
    """Software of harnesses."""

    def run(self, cell: PlannedCell, setting: LiveSetting, on_phase: PhaseListener) -> LiveResult:
        """Run the cell to its seal. InfraFailure when it is lost, Interrupted when the run stops."""
        tools = LiveTools(
            sandboxes=self.sandboxes,
            gateway=self.gateway,
            stop=self.stop,
            on_phase=on_phase,
            secrets=self.secrets,
        )
        return run_live(self._request(cell.spec, setting), tools)

    def _request(self, spec: CellSpec, setting: LiveSetting) -> LiveRequest:
        digest = (spec.arm.model or {}).get("script_sha256")
        return LiveRequest(
            layers=self.shelf.layers(spec.arm.harness),
            spec=spec,
            task=setting.task,
            image=setting.image,
            attempt=setting.attempt,
            stage=setting.stage,
            oracle_patch=setting.oracle_patch,
            script=self.script(digest) if digest else None,
        )


@dataclass(frozen=True)
class LiveSetting:
    """What one live step is given. `oracle_patch` only for the control of that name."""

    task: LiveTask
    image: TaskImage
    attempt: str
    stage: Path
    oracle_patch: bytes | None = None
