"""Images of tasks: the base, one image for each recipe on it, and a thin layer for each task.

Rules:
1. An image is found by the digest of all that decides it (its label `assay.recipe` or `assay.build`), and built once.
2. Tasks with the same recipe share everything but their thin layer.
3. No build step has a network; what a recipe needs is fetched on the host before.
4. What a built image holds is proved inside it (`builder`), and against the git tree id that the host computed.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from docker.errors import DockerException, ImageNotFound

from cells.errors import EnvironmentFault, InfraFailure
from cells.evidence.digest import digest_json, short
from cells.tasks.base_state import BaseEntry, git_tree_id
from cells.tasks.frozen import FrozenTask
from cells.tasks.image import BASE_TREE, TaskImage
from cells.tasks.tree import tree_digest
from launchers.base_image import BaseImage, EngineApi, ensure_base_image, load_recipe
from launchers.engine import Engine
from launchers.image_build import INPUTS, REASON, ImageBuildFailed, InputArchive, Step, derive, program_digest
from launchers.image_build_packages import BASE_PYTHON, fetch_debs, fetch_wheels

ENVIRONMENTS, TASKS = "assay/env", "assay/task"
RECIPE_LABEL, BUILD_LABEL, TASK_LABEL, ROLE_LABEL = "assay.recipe", "assay.build", "assay.task", "assay.role"
IDENTITY_LABEL = "assay.trees"
"""JSON of the commits and trees in the image."""
FETCHED_LABEL = "assay.fetched"
"""Digest of the names and digests of the wheels and Debian packages that went in."""
_IDENTITY_KEYS = ("head_commit", "head_tree", "base_commit", "base_tree")

Say = Callable[[str], None]


def open_base_image(engine: Engine, say: Say = lambda line: None) -> BaseImage:
    """The base image, made first where the engine does not hold it. Raises EnvironmentFault."""
    return ensure_base_image(EngineApi(engine.host), load_recipe(), say)


def build_task_image(task: FrozenTask, engine: Engine, say: Say = lambda line: None) -> TaskImage:
    """The image of a task, built where the engine does not hold it yet.

    Raises ImageBuildFailed (an InfraFailure with the whole log) when it cannot be built, InfraFailure when the engine
    fails.
    """
    parent = _environment(task, engine, say)
    key = digest_json(
        {
            "v": 1,
            "parent": parent,
            "task": task.id,
            "base": _base_digest(task),
            "workdir": task.workdir,
            "programs": program_digest("builder", "frames", "names", "objects", "pack", "snapshot", "walk"),
        }
    )
    with one_at_a_time(key):
        held = _find(engine, f"{TASKS}:{short(key)}", BUILD_LABEL, key)
        if held is None:
            say(f"building the image of {task.id}")
            _build_task(task, engine, parent, key)
            held = _find(engine, f"{TASKS}:{short(key)}", BUILD_LABEL, key)
    if held is None:
        raise InfraFailure(REASON, f"{task.id}: the engine lost the image that it just committed")
    return _described(task, held)


def _environment(task: FrozenTask, engine: Engine, say: Say) -> str:
    """Image id of what the task's thin layer stands on."""
    image = task.task.file.image
    if image.digest is not None:
        return str(_inspect(engine, image.digest, f"{task.id}: asked for the image {image.digest}")["Id"])
    try:
        base = open_base_image(engine, say)
    except EnvironmentFault as fault:
        raise ImageBuildFailed(f"{task.id}: no base image", str(fault).encode()) from fault
    if not (image.recipe.apt or image.recipe.pip):
        return base.image_id
    key = digest_json(
        {"v": 1, "recipe": task.recipe_sha256, "base": base.image_id, "programs": program_digest("installer", "frames")}
    )
    with one_at_a_time(key):
        held = _find(engine, f"{ENVIRONMENTS}:{short(key)}", BUILD_LABEL, key)
        if held is not None:
            return str(held["Id"])
        say(f"installing {', '.join((*image.recipe.apt, *image.recipe.pip))}")
        return _build_environment(task, engine, base, key)


def _build_environment(task: FrozenTask, engine: Engine, base: BaseImage, key: str) -> str:
    recipe = task.task.file.image.recipe
    with tempfile.TemporaryDirectory(prefix="assay-recipe-") as scratch, tempfile.TemporaryFile() as inputs:
        debs = fetch_debs(engine, base.image_id, recipe.apt, Path(scratch) / "debs")
        fetched = dict(debs.digests)
        archive = InputArchive(inputs)
        archive.add_all(_files_in(debs.folder, "*.deb", "debs"))
        if recipe.pip:
            wheels = fetch_wheels(recipe.pip, load_recipe().architecture, Path(scratch) / "wheels")
            fetched |= wheels.digests
            archive.add_all(_files_in(wheels.folder, "*.whl", "wheels"))
        request = {"python": BASE_PYTHON, "pip": sorted(recipe.pip)}
        archive.add(_input("request.json"), 0o644, json.dumps(request).encode())
        archive.close()
        inputs.seek(0)
        labels = {
            ROLE_LABEL: "environment-image",
            RECIPE_LABEL: task.recipe_sha256,
            BUILD_LABEL: key,
            FETCHED_LABEL: digest_json(fetched),
        }
        step = Step(base.image_id, "installer", inputs, ENVIRONMENTS, short(key), labels, f"recipe of {task.id}")
        return derive(engine, step)


def _build_task(task: FrozenTask, engine: Engine, parent: str, key: str) -> None:
    entries = task.base_entries()
    with tempfile.TemporaryFile() as inputs:
        archive = InputArchive(inputs)
        expected = None
        if entries is not None:
            archive.add_folder(BASE_TREE.lstrip("/"))
            expected = git_tree_id(_archiving(entries, archive))
        request = {"workdir": task.workdir, "expected_tree": expected}
        archive.add(_input("request.json"), 0o644, json.dumps(request).encode())
        archive.close()
        inputs.seek(0)
        labels = {
            ROLE_LABEL: "task-image",
            RECIPE_LABEL: task.recipe_sha256,
            BUILD_LABEL: key,
            TASK_LABEL: task.id,
        }
        step = Step(parent, "builder", inputs, TASKS, short(key), labels, task.id)
        derive(engine, step, lambda answer: {IDENTITY_LABEL: json.dumps(_identity(answer.header))})


def _archiving(entries: Iterator[BaseEntry], archive: InputArchive) -> Iterator[BaseEntry]:
    for entry in entries:
        archive.add(BASE_TREE.lstrip("/").encode() + b"/" + entry.path, entry.mode, entry.content)
        yield entry


def _identity(header: dict[str, Any]) -> dict[str, str]:
    return {key: str(header[key]) for key in _IDENTITY_KEYS}


def _described(task: FrozenTask, held: dict[str, Any]) -> TaskImage:
    identity = json.loads(held["Config"]["Labels"][IDENTITY_LABEL])
    return TaskImage(
        task=task.id, image_id=held["Id"], recipe_sha256=task.recipe_sha256, workdir=task.workdir, **_identity(identity)
    )


def _base_digest(task: FrozenTask) -> str:
    state = {"repo", "repo.tar"}
    members = [member for member in task.task.members if member.path.split(b"/")[0].decode("utf-8", "replace") in state]
    return tree_digest(members)


def _files_in(folder: Path, pattern: str, target: str) -> Iterator[tuple[bytes, int, bytes]]:
    for path in sorted(folder.glob(pattern)):
        yield _input(f"{target}/{path.name}"), 0o644, path.read_bytes()


def _input(name: str) -> bytes:
    return f"{INPUTS.lstrip('/')}/{name}".encode()


def _find(engine: Engine, reference: str, label: str, value: str) -> dict[str, Any] | None:
    try:
        found = engine.api.inspect_image(reference)
    except ImageNotFound:
        return None
    except (DockerException, requests.RequestException) as error:
        raise InfraFailure(REASON, f"the engine does not say whether it holds {reference}: {error}") from error
    return found if (found["Config"].get("Labels") or {}).get(label) == value else None


def _inspect(engine: Engine, reference: str, asked: str) -> dict[str, Any]:
    try:
        return dict(engine.api.inspect_image(reference))
    except ImageNotFound as error:
        raise ImageBuildFailed(f"{asked}; the engine does not hold it: load or pull it first", b"") from error
    except (DockerException, requests.RequestException) as error:
        raise InfraFailure(REASON, f"{asked}: {error}") from error


@contextmanager
def one_at_a_time(key: str) -> Iterator[None]:
    """One build of one image on this machine; the others wait and find it."""
    path = Path(tempfile.gettempdir()) / f"assay-image-{os.getuid()}-{short(key)}.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
