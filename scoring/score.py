"""The score step: verdict.txt and score/**, checkpoint.json and metrics.json, leaks.json and noise.json.

Rules:
1. Everything here follows from files that are already whole: the same bytes every time, so a killed step is taken
   again.
2. A fraction is an exact rational, `passed/total` reduced; where total is 0 it is 0 by the stated rule, and that is
   counted.
3. verdict.txt is written last: it stands for the whole step.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cells.artifacts import Role, Writer
from cells.attempt import SealedAttempt
from cells.design.study_model import NoiseSection
from cells.evidence.digest import digest_bytes
from cells.outcome import Verdict, outcome_of, resolved_of, verdict_of
from cells.tasks.frozen import FrozenTask
from scoring.collected import filtered_name
from scoring.documents import CheckpointFile, LeaksFile, MetricsFile, NoiseFile, ScoreResultFile, put_document
from scoring.leak_index import LeakIndex
from scoring.leaks import NAME as LEAKS
from scoring.leaks import leaks_document
from scoring.metrics import CHECKPOINT, METRICS, checkpoint_document, metrics_document
from scoring.noise import NAME as NOISE
from scoring.noise import noise_document
from scoring.records import CellRecord, ended_of
from scoring.step_files import put, put_json
from scoring.verify import NAME as VERIFY
from scoring.verify import Passed, Verified

SCORE_VERSION = 1
VERDICT = "post/verdict.txt"
PREDICTIONS, RESULT, LOG = "post/score/preds.json", "post/score/score_result.json", "post/score/scorer.log"
ZERO_TOTAL_RULE = "a fraction of no tests is 0"


@dataclass(frozen=True)
class Scored:
    """What the score step says."""

    verdict: Verdict
    outcome: str
    reason: str
    resolved: int | None
    contaminated: bool


def score(
    sealed: SealedAttempt,
    task: FrozenTask,
    cell: CellRecord,
    verified: Verified,
    index: LeakIndex | None,
    noise: NoiseSection,
) -> Scored:
    """Write or adopt every file of the step."""
    leaks = leaks_document(sealed, cell, index)
    machine = noise_document(sealed, noise)
    put_document(sealed, LEAKS, LeaksFile, leaks, Writer.LEAK_SCAN)
    put_document(sealed, NOISE, NoiseFile, machine, Writer.NOISE)
    put_document(sealed, CHECKPOINT, CheckpointFile, checkpoint_document(sealed, cell), Writer.SCORER)
    put_document(sealed, METRICS, MetricsFile, metrics_document(sealed, cell), Writer.SCORER)
    ended = ended_of(sealed)
    verdict = verdict_of(ended, verified.patch_state, verified.verdict)
    contaminated = bool(leaks["contaminated"] or machine["contaminated"])
    scored = Scored(
        verdict, outcome_of(ended, verified.patch_state), verified.reason, resolved_of(verdict), contaminated
    )
    patch = sealed.read(filtered_name(task.id), Role.SCORING)
    put_json(sealed, PREDICTIONS, predictions(task.id, cell, patch), Writer.SCORER)
    put_json(sealed, f"post/score/{task.id}.json", swebench_report(task, verified, patch), Writer.SCORER)
    result = _result(sealed, task, verified, scored, patch) | {
        "contaminated": {
            "leaks": leaks["contaminated"],
            "noise": machine["contaminated"],
            "reasons": machine["reasons"],
        }
    }
    put_document(sealed, RESULT, ScoreResultFile, result, Writer.SCORER)
    put(sealed, LOG, _log(result), Writer.SCORER)
    put(sealed, VERDICT, f"{verdict.value}\n{verified.reason}\n".encode(), Writer.SCORER)
    return scored


def fraction_of(count: Passed | None) -> str | None:
    """`a/b` reduced, `0/1` for no tests; None where nothing is known."""
    if count is None:
        return None
    exact = Fraction(count.passed, count.total) if count.total else Fraction(0)
    return f"{exact.numerator}/{exact.denominator}"


def predictions(task: str, cell: CellRecord, patch: bytes) -> dict[str, Any]:
    """preds.json: SWE-bench's predictions of one instance. Bytes that are not UTF-8 are shown as escapes there; the
    patch
    itself is `<task>.patch`."""
    return {
        task: {
            "instance_id": task,
            "model_name_or_path": str(cell.arm["name"]),
            "model_patch": patch.decode("utf-8", "backslashreplace"),
        }
    }


def swebench_report(task: FrozenTask, verified: Verified, patch: bytes) -> dict[str, Any]:
    """score/<task>.json: the report of one instance in SWE-bench's form."""
    return {
        task.id: {
            "patch_is_None": False,
            "patch_exists": bool(patch),
            "patch_successfully_applied": verified.self_check is not None and bool(verified.runs.get("candidate")),
            "resolved": verified.verdict is Verdict.RESOLVED,
            "tests_status": {
                "FAIL_TO_PASS": _split(verified, task.verify.f2p),
                "PASS_TO_PASS": _split(verified, task.verify.p2p),
                "FAIL_TO_FAIL": {"success": [], "failure": []},
                "PASS_TO_FAIL": {"success": [], "failure": []},
            },
        }
    }


def _split(verified: Verified, names: tuple[str, ...]) -> dict[str, list[str]]:
    passed = [name for name in names if verified.tests.get(name) == "passed"]
    return {"success": passed, "failure": [name for name in names if name not in set(passed)]}


def _result(
    sealed: SealedAttempt, task: FrozenTask, verified: Verified, scored: Scored, patch: bytes
) -> dict[str, Any]:
    return {
        "v": SCORE_VERSION,
        "task": task.id,
        "ended": ended_of(sealed).value,
        "outcome": scored.outcome,
        "patch": verified.patch_state.value,
        "verdict": scored.verdict.value,
        "reason": scored.reason,
        "resolved": scored.resolved,
        "f2p": _counted(verified.f2p),
        "p2p": _counted(verified.p2p),
        "reward": verified.reward,
        "zero_total_rule": ZERO_TOTAL_RULE,
        "patch_sha256": digest_bytes(patch),
        "patch_bytes": len(patch),
        "verify_sha256": digest_bytes(sealed.read(VERIFY, Role.SCORING)),
    }


def _counted(count: Passed | None) -> dict[str, Any] | None:
    if count is None:
        return None
    return {
        "passed": count.passed,
        "total": count.total,
        "fraction": fraction_of(count),
        "zero_total": count.total == 0,
    }


def _log(result: dict[str, Any]) -> bytes:
    names = ("ended", "outcome", "patch", "verdict", "reason", "resolved", "f2p", "p2p", "reward", "contaminated")
    return "".join(f"{name}: {result[name]}\n" for name in names).encode("utf-8")
