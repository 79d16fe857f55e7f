"""Run as a program: one hostile cell from prepare to score in a fresh process that records every path it opens.

Prints `{"opened": [paths], "root": attempt, "data_root": the engine's folder, "outcome": ...}` on stdout.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

OPENED: set[str] = set()
_EVENTS = {
    "open",
    "os.listdir",
    "os.scandir",
    "os.chmod",
    "os.chown",
    "os.link",
    "os.rename",
    "os.remove",
    "os.truncate",
}


def record(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: every path that this process touches."""
    if event in _EVENTS and arguments and isinstance(arguments[0], (str, bytes, os.PathLike)):
        OPENED.add(os.fsdecode(arguments[0]))


def main(root: Path, program: str) -> None:
    """Run the cell and say what was opened meanwhile."""
    from launchers.docker_sandbox import DockerSandboxes
    from launchers.engine import Engine
    from launchers.specimen import SpecimenCells
    from scoring.post_run import run_post

    engine = Engine.connect()
    cells = SpecimenCells.on(engine, root, DockerSandboxes(engine, root))
    sys.addaudithook(record)
    result = cells.run("command", {"command": ["python3", "-c", program], "gather": ["record/**"]})
    post = run_post(
        result.sealed,
        cells.task,
        cells.image,
        cells.sandboxes,
        collector=result.collector.channel,
        stop=threading.Event(),
    )
    result.collector.close()
    opened = sorted(OPENED)
    said = {
        "opened": opened,
        "root": str(result.sealed.root),
        "data_root": engine.api.info()["DockerRootDir"],
        "outcome": post.outcome,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
