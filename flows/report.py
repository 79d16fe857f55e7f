"""The report of a study from plan and ledger: facts gathered here, estimates and page made by scoring.

Rules:
1. The report is derived: the same evidence gives the same bytes, so it holds no clock and no path of this machine.
2. While cells are open and nobody unblinded the study, it shows how cells ended and nothing of their verdicts.
3. Everything is read from plan and ledger, and one bundle for each runtime: writing it costs seconds, not minutes.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.files import read_regular, replace
from cells.evidence.history import Unit
from cells.evidence.ledger import Row as LedgerRow
from cells.evidence.policy import read_policy
from cells.evidence.run_meta import RUN_META
from flows.board import PHASES
from flows.compare import analysis_plan, compared_arms
from flows.freezing import open_study
from flows.status import StudyState, cost_of, read_state, status_document
from flows.tables import StudyRows, study_rows
from flows.text import money
from scoring.report.analysis import Analysis, analyse
from scoring.report.contents import Design, Provenance, Reliability, Revision, Runtime, StudyContents
from scoring.report.markdown import report_markdown
from scoring.report.page import page

REPORT = "report.html"


def write_report(studies: Path, name: str) -> Path:
    """Write `<study>/report.html` anew from the study's evidence; returns its path."""
    state = read_state(open_study(studies, name))
    path = state.study.store.path / REPORT
    replace(path, html_report(state))
    return path


def html_report(state: StudyState) -> bytes:
    """The page of a study as it stands."""
    contents = gather(state)
    return page(contents, estimates(state, contents))


def markdown_report(state: StudyState) -> str:
    """The same as Markdown."""
    contents = gather(state)
    return report_markdown(contents, estimates(state, contents))


def estimates(state: StudyState, contents: StudyContents) -> Analysis | None:
    """The analysis that the plan fixed; None while verdicts are hidden."""
    return None if contents.blind else analyse(contents, analysis_plan(state.study.plan))


def gather(state: StudyState) -> StudyContents:
    """Everything of a study that a report shows, but for the estimates."""
    found = study_rows(state)
    return StudyContents(
        design=_design(state),
        rows=found.rows,
        open_cells=found.open_cells,
        phases=_phases(state),
        reliability=_reliability(state, found),
        provenance=_provenance(state),
        blind=found.blind,
    )


def _design(state: StudyState) -> Design:
    plan = state.study.plan
    arms = tuple(compared_arms(plan))
    return Design(
        study=plan.study,
        plan_sha256=plan.sha256,
        revision=plan.revision,
        seed=plan.seed,
        arms=arms,
        controls=tuple(sorted({cell.spec.arm.name for cell in plan.cells if cell.is_control})),
        tasks=len(plan.tasks),
        repositories=len({task.repository for task in plan.tasks}),
        samples=int(plan.design["study"]["samples"]),
        same_arms=_same_arms(plan.design["arms"], arms),
        without_control=tuple(task.id for task in plan.tasks if task.without_control),
    )


def _same_arms(sections: dict[str, Any], arms: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Pairs of arms whose sections of the study file say the same."""
    return tuple(
        (one, other)
        for place, one in enumerate(arms)
        for other in arms[place + 1 :]
        if sections[one] == sections[other]
    )


def _phases(state: StudyState) -> dict[str, dict[str, float]]:
    """Arm -> phase -> mean seconds of an accepted attempt."""
    units: dict[str, list[Unit]] = {}
    for cell in state.cells:
        unit = state.unit(cell)
        if unit is not None and unit.detail.get("phase_s"):
            units.setdefault(cell.spec.arm.name, []).append(unit)
    return {
        arm: {phase: sum(float(unit.detail["phase_s"].get(phase, 0)) for unit in own) / len(own) for phase in PHASES}
        for arm, own in units.items()
    }


def _reliability(state: StudyState, found: StudyRows) -> Reliability:
    attempts = [unit for unit in state.history.units.values() if unit.kind in ("attempt", "lost_attempt")]
    lost = [unit for unit in attempts if unit.kind == "lost_attempt"]
    document = status_document(state)
    cost = cost_of(attempts)
    return Reliability(
        planned=len(state.cells),
        accepted=len(found.rows),
        attempts=len(attempts),
        lost=dict(Counter(str(unit.detail.get("reason")) for unit in lost)),
        retried_cells=sum(count > 1 for count in Counter(unit.cell for unit in attempts).values()),
        controls=document["controls"],
        withheld=document["withheld"],
        dropped=dict(found.dropped),
        superseded=found.superseded,
        unblinded=_looks(state),
        cost=money(cost["amount"], cost["currency"]) if cost else None,
        cost_unknown=document["cost_unknown"],
    )


def _looks(state: StudyState) -> tuple[str, ...]:
    rows = state.study.store.ledger.rows()
    return tuple(
        f"by {row.detail.get('by', 'an unnamed command')}, after {_accepted_before(state, rows, row)} results of arms"
        for row in rows
        if row.kind == "unblinded"
    )


def _accepted_before(state: StudyState, rows: list[LedgerRow], row: LedgerRow) -> int:
    """Accepted attempts of arms that the ledger held before a row; controls are known before and steer nothing."""
    units = state.history.units
    controls = {"oracle", "nop"}
    subjects = {one.subject for one in rows[: row.seq] if one.kind == "accepted"}
    return sum(subject in units and units[subject].detail.get("harness") not in controls for subject in subjects)


def _provenance(state: StudyState) -> Provenance:
    rows = state.study.store.ledger.rows()
    revisions = [row for row in rows if row.kind == "revised"]
    images: dict[str, set[str]] = {}
    for unit in state.accepted.values():
        if unit.detail.get("image") and unit.detail.get("task"):
            images.setdefault(str(unit.detail["image"]), set()).add(str(unit.detail["task"]))
    return Provenance(
        facts=tuple(_facts(state, len(rows))),
        revisions=tuple(_revision(state, rows, row) for row in revisions),
        runtimes=_runtimes(state),
        images={image: tuple(sorted(tasks)) for image, tasks in sorted(images.items())},
        tasks={task.id: task.sha256 for task in state.study.plan.tasks},
    )


def _facts(state: StudyState, rows: int) -> list[tuple[str, str]]:
    plan, store = state.study.plan, state.study.store
    policy = read_policy(store.path)
    analysis = plan.design["analysis"]
    return [
        ("plan", f"{plan.file_name} {plan.sha256}"),
        ("ledger head", f"{store.ledger.head} ({rows} rows)"),
        ("study id", store.id),
        ("seed", str(plan.seed)),
        ("analysis", ", ".join(f"{key} {value}" for key, value in analysis.items())),
        ("planned with", f"assay {plan.assay_version}"),
        ("policy", ", ".join(f"{key} {value}" for key, value in asdict(policy).items() if value is not None)),
    ]


def _revision(state: StudyState, rows: list[LedgerRow], row: LedgerRow) -> Revision:
    return Revision(
        number=int(row.detail["revision"]),
        accepted_before=_accepted_before(state, rows, row),
        verdicts_seen=bool(row.detail.get("verdicts_seen")),
        changed_cells=int(row.detail.get("changed", 0)),
        design=tuple(str(line) for line in row.detail.get("design", ())),
    )


def _runtimes(state: StudyState) -> tuple[Runtime, ...]:
    """Host fingerprints of accepted attempts, the most used first."""
    units: dict[str, list[Unit]] = {}
    for unit in state.accepted.values():
        units.setdefault(str(unit.detail.get("host") or unit.detail.get("runtime")), []).append(unit)
    found = [Runtime(digest, len(own), _description(state, own[0])) for digest, own in units.items()]
    return tuple(sorted(found, key=lambda one: (-one.cells, one.digest)))


def _description(state: StudyState, unit: Unit) -> dict[str, str]:
    """Engine, kernel and machine of an attempt, in words."""
    path = state.study.store.bundle(unit) / RUN_META
    try:
        runtime = json.loads(read_regular(path)).get("runtime") or {}
    except ValueError as error:
        raise EvidenceError(f"{path}: not JSON ({error})") from error
    engine, host = runtime.get("engine") or {}, runtime.get("host_class") or {}
    words = {
        "assay": runtime.get("assay"),
        "python": runtime.get("python"),
        str(engine.get("name", "engine")): engine.get("version"),
        str(engine.get("runtime", "runtime")): engine.get("runtime_version"),
        "kernel": runtime.get("kernel"),
        "architecture": runtime.get("architecture"),
        "cores": host.get("cores"),
        "memory, GiB": host.get("memory_gb"),
        "processor": host.get("processor"),
    }
    return {name: str(value) for name, value in words.items() if value is not None}
