"""A specimen: a small study with real seals and bundles, made without engine or model, for benchmarks, golden files
and tests.

Everything is a function of its arguments: the same specimen has the same bytes wherever it is made (but for ids of
roots and times).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cells.attempt import LiveAttempt
from cells.design.cell import ArmContent, CellLimits, CellSpec
from cells.evidence.digest import canonical_json, digest_bytes, digest_json
from cells.evidence.history import Unit
from cells.evidence.roots import StudiesRoot
from cells.evidence.run_meta import RunFacts, build_run_meta
from cells.evidence.study_store import StudyStore
from cells.evidence.units import Stage, begin_attempt, publish_unit

RUNTIME = {"engine": "specimen", "kernel": "none", "assay": "0"}
LIMITS = CellLimits("active", 60.0, 10, 20, 1000, "0.50", 256, 1.0, 64, "memory", 64, 60.0)


@dataclass(frozen=True)
class Specimen:
    """What differs between attempts of a specimen study."""

    task: str = "parse-1.20.2"
    arm: str = "control"
    sample: int = 1
    verdict: str = "resolved"
    salt: str = ""
    """Goes into the trace: two salts, two different runs of the same cell."""

    @property
    def spec(self) -> CellSpec:
        """The cell."""
        arm = ArmContent(self.arm, "nop", None, None, {})
        digest = digest_bytes(self.task.encode())
        return CellSpec("specimen", self.task, digest, digest, arm, LIMITS, self.sample)


def specimen_study(studies: Path, name: str = "specimen", cells: int = 1) -> StudyStore:
    """A study of so many cells, each with one accepted attempt."""
    store = empty_study(studies, name)
    with store.writing():
        for number in range(cells):
            add_attempt(store, Specimen(task=f"task-{number:05d}"))
    return store


def empty_study(studies: Path, name: str = "specimen") -> StudyStore:
    """A study without attempts."""
    return StudyStore.create(StudiesRoot.ensure(studies), name, documents(name))


def documents(name: str) -> dict[str, bytes]:
    """The frozen documents of a specimen study."""
    return {
        "study.json": canonical_json({"v": 1, "name": name}),
        "plan.lock.json": canonical_json({"v": 1, "study": name, "cells": []}),
        "policy.json": canonical_json(
            {"v": 1, "licence": "MIT", "privacy": "public", "retention": None, "may_publish": True}
        ),
    }


def add_attempt(store: StudyStore, specimen: Specimen) -> Unit:
    """Run, seal and publish one attempt of a cell."""
    stage, ids = staged_attempt(store, specimen)
    return publish_unit(store, stage, "attempt", ids)


def staged_attempt(store: StudyStore, specimen: Specimen) -> tuple[Stage, dict[str, Any]]:
    """A sealed attempt, ready to be published, and its ids."""
    spec = replace(specimen.spec, study=store.name)
    stage = begin_attempt(store, spec.directory, {"cell_id": spec.cell_id})
    ids = {
        "study": store.name,
        "cell": spec.directory,
        "cell_id": spec.cell_id,
        "attempt": stage.name,
        "task": specimen.task,
        "arm": specimen.arm,
        "sample": specimen.sample,
        "verdict": specimen.verdict,
        "outcome": "completed" if specimen.verdict != "not_run" else "infra_lost",
        "runtime": digest_json(RUNTIME),
    }
    build_attempt(stage.path, spec, specimen, ids)
    return stage, ids


def build_attempt(path: Path, spec: CellSpec, specimen: Specimen, ids: Mapping[str, Any]) -> None:
    """The files of a sealed attempt, run_meta.json included: ten members and their seals."""
    live = LiveAttempt.create(path)
    live.write("start/spec.json", canonical_json(spec.as_json()), "planner")
    live.write("start/plan.json", canonical_json({"v": 1, "stages": []}), "planner")
    live.write("start/prompt.txt", b"Make the tests pass.\n", "planner")
    live.seal_start("none", {})
    trace = canonical_json({"v": 1, "seq": 0, "event": "session_start", "salt": specimen.salt}) + b"\n"
    live.append("live/trace.jsonl", trace, "gateway")
    live.write("live/fingerprint.txt", digest_bytes(trace).encode() + b"\n", "sealer")
    sealed = live.seal([], {"ended": "completed"})
    sealed.write("post/verify.json", canonical_json({"v": 1, "verdict": specimen.verdict}), "verifier")
    sealed.write("provenance/origin.json", canonical_json({"v": 1, "licence": "MIT"}), "publisher")
    facts = RunFacts(
        study=str(ids["study"]),
        cell=str(ids["cell"]),
        cell_id=str(ids["cell_id"]),
        attempt=str(ids["attempt"]),
        verdict=specimen.verdict,
        outcome=str(ids["outcome"]),
        runtime=RUNTIME,
    )
    sealed.write("run_meta.json", build_run_meta(path, facts), "publisher")


def manifest_json(bundle: Path) -> dict[str, Any]:
    """The manifest of a specimen bundle, parsed."""
    found = json.loads((bundle / "manifest.json").read_bytes())
    return dict(found)
