"""Harbor: the trials of a job directory, or one trial, as rows.

Rules (Harbor 0.26, `models/trial/result.py`, `models/trial/error_policy.py`, `models/job/result.py`):
1. The score is the reward named `reward`, or the only one: 1 is resolved, 0 unresolved. What lies between is no
   verdict: null, and the reason has the value.
2. A reward beside an exception counts only for exceptions that are the candidate's own (`_CANDIDATES_OWN`). Beside any
   other, known or unknown, it is `invalid`; where the agent never ran, `not_run`.
3. A document without `schema_version` is version 1, as Harbor says itself; any other is refused.
4. `n_input_tokens` has what came from a cache, as a row does. Costs are US dollars.
5. The samples of a task are numbered by start within a job; of a trial alone the number is unknown.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from cells.outcome import Ended, Verdict, resolved_of
from scoring.interop.reading import Field, Row, document, file_digest, foreign_row, refuse_repeated

VERSION = 1
_CANDIDATES_OWN = {
    "AgentTimeoutError": Ended.WALL_LIMIT,
    "NonZeroAgentExitCodeError": Ended.HARNESS_ERROR,
    "ContextWindowExceededError": Ended.CONTEXT_LIMIT,
    "ContextLengthExceededError": Ended.CONTEXT_LIMIT,
    "OutputTokenExceededError": None,
    "OutputLengthExceededError": None,
    "AgentSafetyRefusalError": None,
    "ContentPolicyViolationError": None,
}
_TOTALS = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")


def result_rows(path: Path) -> list[Row]:
    """The rows of a `result.json`, or of the folder that has it: a job's or a trial's."""
    file = path / "result.json" if path.is_dir() else path
    result = document(file)
    if "trial_name" in result.members():
        return [_trial_row(result, file)]
    return _job_rows(result, file)


def _job_rows(job: Field, file: Path) -> list[Row]:
    _check_version(job)
    files = sorted(file.parent.glob("*/result.json"))
    total, done = job.at("n_total_trials"), job.at("stats").at("n_completed_trials")
    planned, completed = total.count(), done.count() or 0
    if planned is None or len(files) > planned or completed > planned:
        total.refuse(f"{planned}, but {completed} completed and {len(files)} trials in the folder")
    if completed > len(files):
        done.refuse(f"{completed}, but {len(files)} trials in the folder")
    rows = [_trial_row(document(path), path) for path in files]
    return _numbered(refuse_repeated(rows, str(file), "trial_name"))


def _numbered(rows: list[Row]) -> list[Row]:
    seen: Counter[tuple[str, str]] = Counter()
    for row in sorted(rows, key=lambda row: (row["started_at"] or "", row["attempt"])):
        seen[row["arm"], row["task"]] += 1
        row["sample"] = seen[row["arm"], row["task"]]
    return rows


def _check_version(result: Field) -> None:
    version = result.at("schema_version")
    if version.value not in (None, VERSION) or isinstance(version.value, bool):
        version.refuse(f"found {version.value!r}; read is version {VERSION}")


def _trial_row(trial: Field, path: Path) -> Row:
    _check_version(trial)
    agent = trial.at("agent_info")
    harness, model = agent.at("name").word(), agent.at("model_info").object().at("name").text()
    steps = [] if trial.at("step_results").value is None else trial.at("step_results").items()
    return foreign_row(
        study=path.absolute().parent.parent.name,
        attempt=trial.at("trial_name").word(),
        task=trial.at("task_name").word(),
        arm=f"{harness}__{model}" if model else harness,
        harness=harness,
        model=model,
        bundle_sha256=file_digest(path),
        wall_s=_seconds(trial),
        run_s=_seconds(trial.at("agent_execution").object()),
        verify_s=_seconds(trial.at("verifier").object()),
        started_at=trial.at("started_at").moment(),
        **_spent(trial, steps),
        **_outcome(trial, steps),
    )


def _seconds(timing: Field) -> float | None:
    began, ended = timing.at("started_at").moment(), timing.at("finished_at").moment()
    if began is None or ended is None:
        return None
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    if seconds < 0:
        timing.at("finished_at").refuse(f"{ended} is before {began}")
    return seconds


def _spent(trial: Field, steps: list[Field]) -> Row:
    """Sums over the trial's agent, or over its steps; null where one of them does not tell."""
    one = trial.at("agent_result")
    agents = [one] if one.value is not None else [step.at("agent_result").object() for step in steps]
    told = {name: [_amount(agent.at(name)) for agent in agents] for name in _TOTALS}
    sums = {
        name: sum((part for part in parts if part is not None), Decimal(0)) if parts and None not in parts else None
        for name, parts in told.items()
    }
    prompt, cached, output, cost = (sums[name] for name in _TOTALS)
    if prompt is not None and cached is not None and cached > prompt:
        trial.at("agent_result").at("n_cache_tokens").refuse(f"{cached} of {prompt} prompt tokens")
    return {
        "input_tokens": None if prompt is None else int(prompt),
        "cached_tokens": None if cached is None else int(cached),
        "output_tokens": None if output is None else int(output),
        "cost": None if cost is None else format(cost, "f"),
        "currency": None if cost is None else "USD",
    }


def _amount(field: Field) -> Decimal | None:
    amount = field.money() if field.name.endswith("cost_usd") else field.count()
    return None if amount is None else Decimal(amount)


def _outcome(trial: Field, steps: list[Field]) -> Row:
    errors = [one.at("exception_info") for one in (trial, *steps) if one.at("exception_info").value is not None]
    kinds = [error.at("exception_type").word() for error in errors]
    foreign = [kind for kind in kinds if kind not in _CANDIDATES_OWN]
    if foreign:
        ran = steps or trial.at("agent_execution").value is not None
        verdict = Verdict.INVALID if ran else Verdict.NOT_RUN
        return {"verdict": verdict.value, "reason": f"exception: {foreign[0][:100]}"}
    ended = _CANDIDATES_OWN[kinds[0]] if kinds else Ended.COMPLETED
    told: Row = {} if ended is None else {"ended": ended.value, "outcome": ended.value}
    return told | _verdict(trial, kinds)


def _verdict(trial: Field, kinds: list[str]) -> Row:
    because = f"exception: {kinds[0]}" if kinds else None
    rewards = trial.at("verifier_result").object().at("rewards").object()
    names = list(rewards.members())
    if not names:
        return {"reason": because or "no_reward"}
    if trial.at("reward_valid").flag() is False:
        return {"verdict": Verdict.INVALID.value, "reason": because or "reward_not_valid"}
    name = "reward" if "reward" in names else names[0] if len(names) == 1 else None
    if name is None:
        return {"reason": f"several rewards, none of them `reward`: {', '.join(names)[:200]}"}
    reward = rewards.at(name).number()
    if reward not in (0, 1):
        return {"reason": f"reward: {reward}"}
    verdict = Verdict.RESOLVED if reward else Verdict.UNRESOLVED
    return {"verdict": verdict.value, "resolved": resolved_of(verdict), "reason": None if reward else "reward_0"}
