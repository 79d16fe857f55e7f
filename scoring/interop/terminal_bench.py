"""terminal-bench: the `results.json` of a run as rows.

Rules (terminal-bench 0.2.18, `harness/models.py`, `agents/failure_mode.py`):
1. `is_resolved` is a verdict only beside the tests that it follows from; it must be true exactly when all passed.
   (The tool calls a run without a single test resolved.)
2. Without tests, or with the failure `unknown`, the verdict is `invalid`: an unknown failure is never a score.
3. The file has no version: a failure mode or a test status that this reader does not know is refused.
4. The tests are not told apart as turning and staying: those counts are null.
5. Agent and model are those of `run_metadata.json` beside the file, null where there is none.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from cells.outcome import Ended, Verdict, resolved_of
from scoring.interop.reading import Field, Row, document, file_digest, foreign_row, refuse_repeated

_ENDED = {
    "unset": Ended.COMPLETED,
    "none": Ended.COMPLETED,
    "unknown": None,
    "test_timeout": Ended.COMPLETED,
    "agent_timeout": Ended.WALL_LIMIT,
    "unknown_agent_error": Ended.HARNESS_ERROR,
    "parse_error": Ended.COMPLETED,
    "fatal_llm_parse_error": Ended.HARNESS_ERROR,
    "context_length_exceeded": Ended.CONTEXT_LIMIT,
    "output_length_exceeded": None,
    "agent_installation_failed": None,
}
_NUMBERED = re.compile(r"\.([1-9]\d{0,5})-of-\d+\.")


def run_rows(path: Path) -> list[Row]:
    """The rows of a run's `results.json`, or of the folder that has it."""
    file = path / "results.json" if path.is_dir() else path
    results = document(file)
    trials = results.at("results").items()
    known = _of_run(file) | {"bundle_sha256": file_digest(file)}
    rows = refuse_repeated((_row(trial, known) for trial in trials), str(file), "trial_name")
    _check_totals(results, rows, sum(trial.at("is_resolved").flag() is True for trial in trials))
    return rows


def _of_run(file: Path) -> Row:
    metadata, run = file.with_name("run_metadata.json"), file.absolute().parent.name
    if not metadata.is_file():
        return {"study": run}
    told = document(metadata)
    agent, model = told.at("agent_name").word(), told.at("model_name").text()
    arm = f"{agent}__{model}" if model else agent
    return {"study": told.at("run_id").word(), "harness": agent, "model": model, "arm": arm}


def _check_totals(results: Field, rows: list[Row], resolved: int) -> None:
    stated, accuracy = results.at("n_resolved"), results.at("accuracy")
    if stated.count() not in (None, resolved):
        stated.refuse(f"{stated.value} of {len(rows)} trials, but {resolved} are resolved")
    share = accuracy.number()
    if share is not None and abs(share - (Decimal(resolved) / len(rows) if rows else 0)) > Decimal("1e-9"):
        accuracy.refuse(f"{share}, but {resolved} of {len(rows)} trials are resolved")


def _row(trial: Field, known: Row) -> Row:
    name = trial.at("trial_name").word()
    number = _NUMBERED.search(name)
    return foreign_row(
        **known,
        attempt=name,
        task=trial.at("task_id").word(),
        sample=int(number[1]) if number else None,
        input_tokens=trial.at("total_input_tokens").count(),
        output_tokens=trial.at("total_output_tokens").count(),
        wall_s=_seconds(trial, "trial"),
        run_s=_seconds(trial, "agent"),
        verify_s=_seconds(trial, "test"),
        started_at=trial.at("trial_started_at").moment(),
        **_outcome(trial),
    )


def _seconds(trial: Field, phase: str) -> float | None:
    began, ended = trial.at(f"{phase}_started_at").moment(), trial.at(f"{phase}_ended_at").moment()
    if began is None or ended is None:
        return None
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    if seconds < 0:
        trial.at(f"{phase}_ended_at").refuse(f"{ended} is before {began}")
    return seconds


def _outcome(trial: Field) -> Row:
    mode = trial.at("failure_mode")
    if mode.word() not in _ENDED:
        mode.refuse(f"found {mode.value!r}; known are {', '.join(_ENDED)}")
    ended = _ENDED[mode.word()]
    told: Row = {} if ended is None else {"ended": ended.value, "outcome": ended.value}
    resolved, passed = trial.at("is_resolved").flag(), _all_passed(trial.at("parser_results"))
    if resolved is None or passed is None or mode.value == "unknown":
        reason = "no_test_results" if mode.value in ("none", "unset") else mode.value
        return told | {"verdict": Verdict.INVALID.value, "reason": reason}
    if resolved != passed:
        trial.at("is_resolved").refuse(f"{str(resolved).lower()}, which does not follow from `parser_results`")
    verdict = Verdict.RESOLVED if resolved else Verdict.UNRESOLVED
    reason = None if resolved else "tests_failed"
    return told | {"verdict": verdict.value, "resolved": resolved_of(verdict), "reason": reason}


def _all_passed(tests: Field) -> bool | None:
    """Whether every test passed; None where no test is named."""
    statuses = [status for _, status in tests.object().entries()]
    for status in statuses:
        if status.value not in ("passed", "failed"):
            status.refuse(f"found {status.value!r}; known are passed and failed")
    return all(status.value == "passed" for status in statuses) if statuses else None
