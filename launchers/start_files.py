"""The files of start/: everything that was fixed before the agent's first step, and nothing that was learned later.

Rules:
1. No secret: a key is named by its variable, a URL loses user and password.
2. What the planner hands over (`LiveRequest.start_files`) wins over what would be written here.
3. Times are for people; order and identity come from digests and names.
"""

from __future__ import annotations

import mimetypes
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cells.artifacts import CONTRACT, Writer
from cells.attempt import LiveAttempt
from cells.evidence.digest import canonical_json, digest_bytes, digest_json
from cells.sandbox import ContainerSpec
from launchers.first_process import Orders
from launchers.harnesses.protocol import Harness
from launchers.live_request import LiveRequest

START_VERSION = 1
STAGES = ("prepare", "launch", "run", "gather", "seal", "collect", "gate", "verify", "score", "publish")


@dataclass(frozen=True)
class StartFacts:
    """What is known when everything is created and nothing has started."""

    request: LiveRequest
    harness: Harness
    orders: Orders
    container: ContainerSpec
    container_id: str
    engine: Mapping[str, Any]
    owner: str
    """Label of the process that runs the attempt."""
    at: str
    """UTC, RFC 3339."""


def write_start(attempt: LiveAttempt, facts: StartFacts) -> None:
    """Write every file of start/ but its seal."""
    given = dict(facts.request.start_files)
    for name, make in _default_files(facts).items():
        attempt.write(name, given.pop(name) if name in given else make(), Writer.LAUNCHER)
    for name, content in given.items():
        attempt.write(name, content, Writer.PLANNER)


def model_of(request: LiveRequest) -> str | None:
    """The served name of the cell's model as the harness is told it; None without a model."""
    model = request.spec.arm.model
    return None if model is None else str(model.get("model") or "scripted")


def run_start_provenance(request: LiveRequest, engine: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `session_start` (saved-files, "Run-start provenance") that a launcher knows."""
    model = request.spec.arm.model or {}
    return {
        "harness": request.spec.arm.harness,
        "model_target": model.get("provider"),
        "model": model_of(request),
        "profile_name": None,
        "base_url": without_credentials(model.get("base_url")),
        "context_size": request.spec.arm.input_limit,
        "sandbox_selected": "container",
        "sandbox_resolved": "container",
        "sandbox_engaged": True,
        "sandbox_explicit_unsandboxed": False,
        "sandbox_backend": "container",
        "container_runtime": engine.get("runtime"),
        "container_image_digest": request.image.image_id,
        "worktree_base_commit": request.image.head_commit,
    }


def without_credentials(url: str | None) -> str | None:
    """A URL without user, password, query and fragment."""
    if url is None:
        return None
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _default_files(facts: StartFacts) -> dict[str, Callable[[], bytes]]:
    request = facts.request
    files: dict[str, Callable[[], bytes]] = {
        "start/spec.json": lambda: canonical_json(request.spec.as_json()),
        "start/plan.json": lambda: canonical_json(_plan(facts)),
        "start/reservation.json": lambda: canonical_json(_reservation(facts)),
        "start/prompt.txt": lambda: request.task.prompt,
        "start/contracts/contract.json": lambda: canonical_json(contract_document()),
        "start/run_manifest.env": lambda: _manifest(facts),
        "start/container.id": lambda: f"{facts.container_id}\n".encode(),
        "start/session.json": lambda: canonical_json(_session(facts)),
        "start/server_meta.json": lambda: canonical_json(_server(facts)),
    }
    if request.task.images:
        files["start/task_images.json"] = lambda: canonical_json(_images(request))
        for image in request.task.images:
            files[f"start/task_images/{image.name}"] = lambda content=image.content: content  # type: ignore[misc]
    return files


def contract_document() -> dict[str, Any]:
    """The contract in force, as data: start/contracts/contract.json."""
    rows = [
        {
            "pattern": row.pattern,
            "scope": row.scope.value,
            "writer": row.writer,
            "ready": [ready.value for ready in row.classes],
            "readers": list(row.readers()),
            "required": row.required,
        }
        for row in CONTRACT
    ]
    return {"v": START_VERSION, "rows": rows}


def _plan(facts: StartFacts) -> dict[str, Any]:
    spec = facts.request.spec
    nodes = [{"stage": stage, "after": [STAGES[number - 1]] if number else []} for number, stage in enumerate(STAGES)]
    binds = {
        "cell_id": spec.cell_id,
        "task_sha256": spec.task_sha256,
        "recipe_sha256": spec.recipe_sha256,
        "image_id": facts.request.image.image_id,
        "prompt_sha256": digest_bytes(facts.request.task.prompt),
        "settings_sha256": digest_json(spec.arm.settings),
    }
    return {"v": START_VERSION, "stages": nodes, "binds": binds}


def _reservation(facts: StartFacts) -> dict[str, Any]:
    spec = facts.request.spec
    return {
        "v": START_VERSION,
        "cell_id": spec.cell_id,
        "cell": spec.directory,
        "attempt": facts.request.attempt,
        "owner": facts.owner,
        "at": facts.at,
    }


def _manifest(facts: StartFacts) -> bytes:
    limits = facts.container.limits
    rows = {
        **{name: value for name, value in facts.orders.environment.items() if name != "ASSAY_SETTINGS"},
        "LAUNCH_COMMAND": shlex.join(facts.orders.command),
        "LAUNCH_IMAGE": facts.request.image.image_id,
        "LAUNCH_USER": facts.container.user,
        "LAUNCH_MEMORY_MB": str(limits.memory_mb),
        "LAUNCH_DISK_MB": str(limits.disk_mb),
        "LAUNCH_CPUS": f"{limits.cpus:g}",
        "LAUNCH_PIDS": str(limits.pids),
    }
    if facts.request.layers:
        rows["LAUNCH_LAYERS"] = " ".join(f"{layer.name}@{layer.content_sha256}" for layer in facts.request.layers)
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(rows.items())).encode()


def _session(facts: StartFacts) -> dict[str, Any]:
    request = facts.request
    return {
        "v": START_VERSION,
        "cell_id": request.spec.cell_id,
        "attempt": request.attempt,
        "task": request.spec.task,
        "sample": request.spec.sample,
        "harness": facts.harness.name,
        "layers": [layer.facts() for layer in request.layers],
        "control": request.spec.arm.control,
        "settings_sha256": digest_json(request.spec.arm.settings),
        "head_commit": request.image.head_commit,
        "base_commit": request.image.base_commit,
        "engine": {name: value for name, value in facts.engine.items() if name != "process"},
        "provenance": run_start_provenance(request, facts.engine),
        "at": facts.at,
    }


def _server(facts: StartFacts) -> dict[str, Any]:
    model = dict(facts.request.spec.arm.model or {})
    if "base_url" in model:
        model["base_url"] = without_credentials(model["base_url"])
    return {"v": START_VERSION, "model": model or None, "input_limit": facts.request.spec.arm.input_limit}


def _images(request: LiveRequest) -> dict[str, Any]:
    rows = [
        {
            "name": image.name,
            "media_type": mimetypes.guess_type(image.name)[0],
            "bytes": len(image.content),
            "sha256": digest_bytes(image.content),
        }
        for image in request.task.images
    ]
    return {"v": START_VERSION, "images": rows}
