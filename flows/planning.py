"""From a study file to a plan: tasks loaded, settings checked, scripts digested. No engine, nothing created.

Rules:
1. Everything that can be refused is refused here (exit 2, file, line and key named), before anything exists on disk.
2. A cell's model content names the key's variable, never its value; a scripted model is its script's digest.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cells.artifacts.live_readers import check_detectors
from cells.design.cell import ArmContent, CellLimits, CellSpec
from cells.design.limits import WiderLimit, study_limits, tightened
from cells.design.matrix import ordered
from cells.design.plan import Plan, TaskEntry
from cells.design.study_file import CONTROL_HARNESSES, LoadedStudy
from cells.design.study_model import ArmSection
from cells.errors import InputFileError, UsageError
from cells.evidence.digest import digest_bytes
from cells.tasks.directory import TaskDirectory, load_task
from cells.toml_file import read_text_file
from flows.scripts import script_for
from launchers.gateway.routes import check_route
from launchers.harnesses.registry import SettingsError, check_settings, harness


@dataclass(frozen=True)
class Draft:
    """A plan that is not yet frozen, and the files that freezing copies."""

    plan: Plan
    tasks: tuple[TaskDirectory, ...]
    scripts: Mapping[str, bytes]
    """Scripts by digest."""


def draft_plan(study: LoadedStudy, environment: Mapping[str, str] = os.environ) -> Draft:
    """The plan that this study file asks for, as its first revision. Raises InputFileError."""
    _check_keys(study, environment)
    tasks = load_tasks(study)
    arms = dict(_arms(study))
    scripts: dict[str, bytes] = {}
    specs = [spec for task in tasks for spec in _specs(study, task, arms, scripts)]
    plan = Plan(
        study=study.file.study.name,
        seed=study.file.study.seed,
        revision=1,
        previous=None,
        design=study.file.model_dump(mode="json"),
        tasks=tuple(_entry(study, task) for task in tasks),
        cells=ordered(specs, study.file.study.seed),
        assay_version=version("assay"),
    )
    return Draft(plan, tasks, scripts)


def load_tasks(study: LoadedStudy) -> tuple[TaskDirectory, ...]:
    """The task directories that [study] tasks names (globs relative to the file), by id."""
    found: dict[str, TaskDirectory] = {}
    for index, pattern in enumerate(study.file.study.tasks):
        found_here = glob.glob(os.path.join(study.directory, pattern, "task.toml"))
        directories = sorted(Path(path).parent for path in found_here)
        if not directories:
            raise study.error(
                ("study", "tasks", index), f"asked for {pattern!r}; found no directory with a task.toml there"
            )
        for directory in directories:
            task = load_task(directory)
            other = found.setdefault(task.id, task)
            if other.directory != task.directory:
                raise study.error(
                    ("study", "tasks", index),
                    f"the task id {task.id!r} is in {other.directory} and in {task.directory}; ids must differ",
                )
    for name in study.file.study.tasks_without_control:
        if name not in found:
            raise study.error(("study", "tasks_without_control"), f"asked for {name!r}; the study has {sorted(found)}")
    return tuple(found[key] for key in sorted(found))


def _check_keys(study: LoadedStudy, environment: Mapping[str, str]) -> None:
    used = {arm.model for arm in study.file.arms.values()}
    for name, model in study.file.models.items():
        if name in used and model.api_key_env and not environment.get(model.api_key_env):
            raise study.error(
                ("models", name, "api_key_env"),
                f"the environment variable {model.api_key_env} is not set; export the key under this name",
            )


def _arms(study: LoadedStudy) -> Iterator[tuple[str, ArmSection]]:
    for name, arm in study.file.arms.items():
        key = ("arms", name)
        try:
            kind = harness(arm.harness)
            settings = check_settings(arm.harness, arm.settings)
        except SettingsError as error:
            raise study.error((*key, "settings", *error.key.split(".")), str(error)) from error
        except UsageError as error:
            raise study.error((*key, "harness"), str(error)) from error
        if kind.control is not None:
            raise study.error((*key, "harness"), f"{arm.harness!r} is a control: ask for it in [controls]")
        if kind.needs_model and arm.model is None:
            raise study.error((*key, "model"), f"the harness {arm.harness!r} needs a model; none is given")
        if arm.model is not None:
            _check_route(study, name, arm.model, kind.speaks)
        _check_detectors(study, name, arm)
        yield name, arm.model_copy(update={"settings": settings})
    controls = study.file.controls
    for name in CONTROL_HARNESSES:
        if getattr(controls, name):
            yield name, ArmSection(harness=name)


def _check_detectors(study: LoadedStudy, arm: str, section: ArmSection) -> None:
    for name, detector in section.detectors.items():
        key = ("arms", arm, "detectors", name)
        if section.model is None:
            raise study.error(key, "a detector watches what a model says; this arm has no model")
        try:
            check_detectors({name: detector})
        except UsageError as error:
            raise study.error(key, str(error)) from error


def _check_route(study: LoadedStudy, arm: str, model: str, protocols: frozenset[Any]) -> None:
    reason = check_route(sorted(protocols), study.file.models[model].provider)
    if reason is not None:
        raise study.error(("arms", arm, "model"), reason)


def _specs(
    study: LoadedStudy, task: TaskDirectory, arms: Mapping[str, ArmSection], scripts: dict[str, bytes]
) -> Iterator[CellSpec]:
    for name, arm in arms.items():
        is_control = name in CONTROL_HARNESSES
        if name == "oracle" and not task.has_gold:
            _without_gold(study, task)
            continue
        for sample in range(1, (study.file.controls.repeat if is_control else study.file.study.samples) + 1):
            content = ArmContent(
                name=name,
                harness=arm.harness,
                model=_model(study, arm, name, task.id, sample, scripts),
                input_limit=arm.input_limit,
                settings=dict(arm.settings),
                detectors={key: detector.model_dump(mode="json") for key, detector in arm.detectors.items()},
                control=name if is_control else None,
            )
            yield CellSpec(
                study=study.file.study.name,
                task=task.id,
                task_sha256=task.sha256,
                recipe_sha256=task.recipe_sha256,
                arm=content,
                limits=_limits(study, task, name, arm),
                sample=sample,
            )


def _without_gold(study: LoadedStudy, task: TaskDirectory) -> None:
    if task.id not in study.file.study.tasks_without_control:
        raise study.error(
            ("controls", "oracle"),
            f"task {task.id!r} has no sealed/gold.patch, so this control cannot run; "
            "name the task in study.tasks_without_control, or leave it out",
        )


def _limits(study: LoadedStudy, task: TaskDirectory, arm_name: str, arm: ArmSection) -> CellLimits:
    limits = study_limits(study.file.limits)
    try:
        limits = tightened(limits, arm.limits)
    except WiderLimit as error:
        raise study.error(("arms", arm_name, "limits", error.key), str(error)) from error
    try:
        return tightened(limits, task.limits)
    except WiderLimit as error:
        raise InputFileError(str(task.directory / "task.toml"), str(error), key=f"limits.{error.key}") from error


def _model(
    study: LoadedStudy, arm: ArmSection, arm_name: str, task: str, sample: int, scripts: dict[str, bytes]
) -> dict[str, Any] | None:
    if arm.model is None:
        return None
    section = study.file.models[arm.model]
    content = {"name": arm.model, **section.model_dump(mode="json")}
    if section.provider != "scripted":
        return content
    assert section.script is not None
    path = script_for(study.directory / section.script, task, arm_name, sample)
    if path is None:
        raise study.error(
            ("models", arm.model, "script"),
            f"no script for task {task!r}, arm {arm_name!r}, sample {sample} under {section.script!r}",
        )
    script = read_text_file(path)
    digest = digest_bytes(script)
    scripts[digest] = script
    return content | {"script": None, "script_sha256": digest}


def _entry(study: LoadedStudy, task: TaskDirectory) -> TaskEntry:
    return TaskEntry(
        id=task.id,
        repository=task.repository,
        sha256=task.sha256,
        recipe_sha256=task.recipe_sha256,
        without_control=task.id in study.file.study.tasks_without_control,
    )
