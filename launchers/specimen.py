"""One live cell without a study: a small task and whatever program is to act in it, for tests, attacks and benchmarks.

The task is real and so is the image; nothing here pretends to be an engine.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from cells.design.cell import ArmContent, CellLimits, CellSpec
from cells.incell.trusted import VOLUME_ROOT
from cells.sandbox import SandboxFactory
from cells.tasks import FrozenTask, freeze, load_task
from cells.tasks.image import TaskImage
from launchers.engine import Engine
from launchers.harnesses.registry import check_settings
from launchers.images import build_task_image
from launchers.live_request import Gateway, LiveRequest, LiveResult, LiveTools
from launchers.run_cell import run_live

LIMITS = CellLimits("wall", 30.0, None, None, None, None, 256, 1.0, 64, "memory", 64, 60.0)
TASK = {
    "task.toml": """\
schema_version = 1
id = "specimen"
repository = "specimen"

[image]
base = "python"

[verify]
command = ["sh", "check.sh", "{report}"]
runner = "script"
f2p = ["reward"]
""",
    "prompt.md": "Make greet.sh greet whoever is named.\n",
    "repo/greet.sh": "#!/bin/sh\necho hello\n",
    "repo/notes/read me.txt": "A name with a space.\n",
    "sealed/tests/check.sh": '#!/bin/sh\n[ "$(sh greet.sh you)" = "hello you" ] && echo 1 > "$1"\n',
    "sealed/gold.patch": """\
diff --git a/greet.sh b/greet.sh
--- a/greet.sh
+++ b/greet.sh
@@ -1,2 +1,2 @@
 #!/bin/sh
-echo hello
+echo "hello $1"
""",
}


def files_left(result: LiveResult) -> dict[str, bytes]:
    """The regular files that the collector finds in the work directory after the agent is dead, without .git."""
    found: dict[str, bytes] = {}
    channel, deadline = result.collector.channel, time.monotonic() + 60
    rows = [{"root": VOLUME_ROOT, "pattern": "**"}]
    channel.send({"type": "gather"}, json.dumps({"files": rows}).encode("ascii"))
    while (frame := channel.receive(deadline, 32 << 20)).type != "gathered":
        name = str(frame.header.get("name", ""))
        if frame.type == "file" and not name.startswith(".git/"):
            found[name] = frame.body
    return found


def specimen_task(root: Path, more: Mapping[str, str] | None = None) -> FrozenTask:
    """The small task, `more` files added or put in place of its own, frozen under `root`, an empty folder."""
    source = root / "source"
    for name, content in {**TASK, **(more or {})}.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    (source / "repo/greet.sh").chmod(0o755)
    return freeze(load_task(source), root / "task")


@dataclass(frozen=True)
class SpecimenCells:
    """Runs live cells of one task; every run is a new attempt of its own directory under `root`."""

    task: FrozenTask
    image: TaskImage
    root: Path
    sandboxes: SandboxFactory
    gateway: Gateway | None = None
    secrets: Mapping[str, str] | None = None
    numbers: count[int] = field(default_factory=lambda: count(1))

    @classmethod
    def on(
        cls, engine: Engine, root: Path, sandboxes: SandboxFactory, more: Mapping[str, str] | None = None
    ) -> SpecimenCells:
        """Cells on a real engine; the image of the task is built where it is missing."""
        task = specimen_task(root, more)
        return cls(task, build_task_image(task, engine), root, sandboxes)

    def run(
        self,
        harness: str = "command",
        settings: Mapping[str, Any] | None = None,
        *,
        model: Mapping[str, Any] | None = None,
        script: Path | None = None,
        limits: CellLimits = LIMITS,
        stop: threading.Event | None = None,
        on_phase: Callable[[str], None] = lambda phase: None,
    ) -> LiveResult:
        """One attempt, to its seal; the caller closes the collector."""
        request = self.request(harness, settings, model=model, limits=limits)
        return run_live(
            replace(request, script=script),
            LiveTools(self.sandboxes, self.gateway, stop or threading.Event(), on_phase, self.secrets or {}),
        )

    def shell(self, script: str, *arguments: str, **changes: Any) -> LiveResult:
        """One attempt of `sh -c SCRIPT`; `changes` replace limits by name."""
        settings = {"command": ["sh", "-c", script, "sh", *arguments]}
        return self.run("command", settings, limits=replace(LIMITS, **changes))

    def request(
        self,
        harness: str,
        settings: Mapping[str, Any] | None,
        *,
        model: Mapping[str, Any] | None = None,
        limits: CellLimits = LIMITS,
    ) -> LiveRequest:
        """The request behind `run`."""
        control = harness if harness in ("oracle", "nop") else None
        number = next(self.numbers)
        arm = ArmContent(
            name="specimen",
            harness=harness,
            model=None if model is None else dict(model),
            input_limit=None,
            settings=check_settings(harness, settings or {}),
            control=control,
        )
        spec = CellSpec("specimen", self.task.id, self.task.sha256, self.task.recipe_sha256, arm, limits, 1)
        return LiveRequest(
            spec=spec,
            task=self.task.live(),
            image=self.image,
            attempt="a001",
            stage=self.root / f"attempt-{number}",
            oracle_patch=self.task.gold_patch() if harness == "oracle" else None,
        )
