"""Requests to a running study from another terminal: files under locks/, cleared when a run starts."""

from __future__ import annotations

from pathlib import Path

REQUESTS = ("pause", "stop")


def request(study: Path, kind: str) -> None:
    """Ask the run of this study to pause or stop once its running cells are done."""
    directory = study / "locks"
    directory.mkdir(exist_ok=True)
    (directory / f"{kind}.request").touch()


def requested(study: Path) -> str | None:
    """The request that is open, `stop` before `pause`."""
    return next((kind for kind in reversed(REQUESTS) if (study / "locks" / f"{kind}.request").exists()), None)


def clear_requests(study: Path) -> None:
    """Forget earlier requests: somebody runs the study again."""
    for kind in REQUESTS:
        (study / "locks" / f"{kind}.request").unlink(missing_ok=True)
