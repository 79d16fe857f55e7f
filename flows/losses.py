"""A lost attempt as evidence: what there is of it is sealed and published with the verdict `not_run`, never accepted.

Rules:
1. A fault of the infrastructure is never behaviour of the agent: `ended` is infra_lost, the reason beside it.
2. What was paid before the loss stays in the attempt's row, and so in the study's total.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from cells.artifacts.seals import LIVE_SEAL, START_SEAL
from cells.attempt import LiveAttempt, SealedAttempt, open_sealed
from cells.design.matrix import PlannedCell
from cells.errors import InfraFailure
from cells.evidence.digest import canonical_json, digest_json
from cells.evidence.history import Unit
from cells.evidence.run_meta import RUN_META, RunFacts, build_run_meta
from cells.evidence.units import Stage, publish_unit
from cells.outcome import Ended, Verdict
from cells.recording.usage import plain
from flows.post_run import PostSide

VERIFY = "post/verify.json"


def publish_loss(side: PostSide, cell: PlannedCell, stage: Stage, failure: InfraFailure) -> Unit:
    """Seal and publish the attempt in `stage` as lost. EvidenceError when what lies there cannot be read."""
    sealed = _sealed(cell, stage, failure)
    if not sealed.has(VERIFY):
        sealed.write(VERIFY, canonical_json(_not_run(failure)), "verifier")
    facts = RunFacts(
        study=side.store.name,
        cell=cell.spec.directory,
        cell_id=cell.spec.cell_id,
        attempt=stage.name,
        verdict=Verdict.NOT_RUN.value,
        outcome=Ended.INFRA_LOST.value,
        runtime=side.runtime,
        more={"order": cell.order, "reason": failure.reason, "detail": failure.detail[-4000:]},
    )
    if not sealed.has(RUN_META):
        sealed.write(RUN_META, build_run_meta(stage.path, facts), "publisher")
    with side.publishing:
        return publish_unit(side.store, stage, "lost_attempt", _ids(side, cell, stage, failure))


def _sealed(cell: PlannedCell, stage: Stage, failure: InfraFailure) -> SealedAttempt:
    if (stage.path / LIVE_SEAL).exists():
        return open_sealed(stage.path)
    attempt = LiveAttempt.reopen(stage.path) if stage.path.exists() else LiveAttempt.create(stage.path)
    if not (stage.path / START_SEAL).exists():
        _write_start(attempt, cell)
    facts = {"ended": Ended.INFRA_LOST.value, "detail": failure.reason, "log": failure.detail[-20_000:]}
    return attempt.seal([], facts)


def _write_start(attempt: LiveAttempt, cell: PlannedCell) -> None:
    documents: dict[str, Any] = {
        "start/spec.json": cell.spec.as_json(),
        "start/plan.json": {"v": 1, "cell_id": cell.spec.cell_id, "stages": []},
    }
    for name, content in documents.items():
        if not (attempt.root / name).exists():
            attempt.write(name, canonical_json(content), "planner")
    attempt.seal_start("none", {})


def _not_run(failure: InfraFailure) -> dict[str, Any]:
    return {
        "v": 1,
        "version": 1,
        "patch": None,
        "image": None,
        "verifier_pack": None,
        "self_check": None,
        "tests": {},
        "f2p": None,
        "p2p": None,
        "duration_s": None,
        "verdict": Verdict.NOT_RUN.value,
        "reason": failure.reason,
        "findings": [],
    }


def _ids(side: PostSide, cell: PlannedCell, stage: Stage, failure: InfraFailure) -> dict[str, Any]:
    paid = _paid(stage)
    return {
        "study": side.store.name,
        "cell": cell.spec.directory,
        "cell_id": cell.spec.cell_id,
        "attempt": stage.name,
        "task": cell.spec.task,
        "arm": cell.spec.arm.name,
        "sample": cell.spec.sample,
        "order": cell.order,
        "verdict": Verdict.NOT_RUN.value,
        "outcome": Ended.INFRA_LOST.value,
        "reason": failure.reason,
        "runtime": digest_json(dict(side.runtime)),
        "host": digest_json(dict(side.runtime)),
        **paid,
    }


def _paid(stage: Stage) -> dict[str, Any]:
    """What is known to have been paid before the loss; a torn last row is not a row."""
    path = stage.path / "live" / "usage.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    rows = [row for row in map(json.loads, lines) if row["event"] == "response_usage"]
    costs = [row["cost"] for row in rows if row["cost"] is not None]
    amount = sum((Decimal(cost["amount"]) for cost in costs), Decimal(0))
    return {
        "requests": len(rows),
        "cost": plain(amount) if costs else None,
        "currency": costs[0]["currency"] if costs else None,
    }
