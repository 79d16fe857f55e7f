"""Removes what dead owners left on the engine, and what no study needs any more.

Rules:
1. Nothing without our labels is ever touched (20-interface, "Labels and names").
2. `reap` takes what has a dead owner or a deadline that has passed; with `dead_only=False`, all of ours.
3. Containers go before volumes, since an engine keeps a volume that is in use.
4. `prune` takes images and layer volumes whose recipe nobody needs; an image that others stand on stays.
5. What the engine refuses to remove is reported, not retried and not hidden.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import requests
from docker.errors import APIError, DockerException

from cells.errors import AssayError, EnvironmentFault
from launchers import volumes
from launchers.docker_sandbox import remove_container
from launchers.engine import Engine
from launchers.labels import CELL, DEADLINE, OWNER, ROLE, STUDY, OwnerProcess, this_process, why_reapable

RECIPE = "assay.recipe"
"""On images and layer volumes: the digest of the recipe they were built from."""
_LAYER = "layer"
_EVERYTHING = "asked for"


@dataclass(frozen=True)
class Removed:
    """One thing that was (or, with `problem`, could not be) removed, and why."""

    kind: str
    name: str
    study: str | None
    cell: str | None
    role: str | None
    why: str
    problem: str | None = None


def reap(engine: Engine, dead_only: bool = True, study: str | None = None, now: float | None = None) -> list[Removed]:
    """Remove leftovers of dead owners, or with `dead_only=False` everything of ours that lives on the engine.

    `study` restricts it to one study. `now` in seconds since 1970, the clock when None.
    Raises EnvironmentFault when the engine does not answer.
    """
    here, moment = this_process(), time.time() if now is None else now

    def why(labels: Mapping[str, str]) -> str | None:
        if owner_of(labels) is None and not labels.get(DEADLINE):
            return None  # a container that somebody made from an image of ours carries our labels, emptied
        if study is not None and labels.get(STUDY) != study:
            return None
        return why_reapable(labels, here, moment) if dead_only else _EVERYTHING

    containers = _listed(lambda: engine.api.containers(all=True, filters={"label": OWNER}))
    removed = [
        _removed("container", item["Id"], item["Labels"], reason, lambda name: remove_container(engine.api, name))
        for item in containers
        if (reason := why(item.get("Labels") or {})) is not None
    ]
    found = _listed(lambda: engine.api.volumes(filters={"label": OWNER}).get("Volumes") or [])
    removed += [
        _removed("volume", item["Name"], item["Labels"], reason, lambda name: volumes.remove(engine.api, name))
        for item in found
        if (reason := why(item.get("Labels") or {})) is not None
    ]
    return removed


def leftovers(engine: Engine, now: float) -> list[str]:
    """Names of containers and volumes that `reap` would take now."""
    here = this_process()
    containers = _listed(lambda: engine.api.containers(all=True, filters={"label": OWNER}))
    found = _listed(lambda: engine.api.volumes(filters={"label": OWNER}).get("Volumes") or [])
    named = [(item["Id"][:12], item) for item in containers] + [(item["Name"], item) for item in found]
    return [name for name, item in named if why_reapable(item.get("Labels") or {}, here, now) is not None]


def prune(engine: Engine, needed: Collection[str]) -> list[Removed]:
    """Remove our images and layer volumes whose label `assay.recipe` is not in `needed`."""
    images = _listed(lambda: engine.api.images(filters={"label": RECIPE}))
    removed = [
        _removed("image", item["Id"], item["Labels"], "no study needs it", lambda name: engine.api.remove_image(name))
        for item in sorted(images, key=lambda item: -int(item["Created"]))
        if item["Labels"][RECIPE] not in needed
    ]
    layers = _listed(lambda: engine.api.volumes(filters={"label": RECIPE}).get("Volumes") or [])
    removed += [
        _removed(
            "volume", item["Name"], item["Labels"], "no study needs it", lambda name: volumes.remove(engine.api, name)
        )
        for item in layers
        if item["Labels"].get(ROLE) == _LAYER and item["Labels"][RECIPE] not in needed
    ]
    return removed


def owner_of(labels: Mapping[str, str]) -> OwnerProcess | None:
    """The process that a container or volume belongs to, None when its label says nothing readable."""
    return OwnerProcess.parse(labels.get(OWNER, ""))


def _listed(call: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    try:
        return call()
    except (DockerException, requests.RequestException) as error:
        raise EnvironmentFault(f"asked the engine what of ours it holds; it answered: {error}") from error


def _removed(kind: str, name: str, labels: Mapping[str, str], why: str, remove: Callable[[str], None]) -> Removed:
    problem: str | None = None
    try:
        remove(name)
    except APIError as error:
        problem = str(error.explanation)
    except (AssayError, requests.RequestException) as error:
        problem = str(error)
    return Removed(kind, name, labels.get(STUDY), labels.get(CELL), labels.get(ROLE), why, problem)
