"""mini-swe-agent: trajectories (`.traj.json`) and the folder of a batch run as rows.

Rules (mini-swe-agent 2.4.6, `agents/default.py`, `run/benchmarks/swebench.py`):
1. A trajectory says how a run ended and what it submitted, never whether that is right: the verdict is null.
2. `LimitsExceeded` stands for two limits: the one that the trajectory's own numbers prove, otherwise null. The name of
   any other exception is no word of ours: `ended` is null and the reason has it.
3. Only a run that submitted has a known patch: the tool writes an empty submission for every other.
4. A cost of 0 beside calls is how the tool writes a price it does not know: null. Costs are US dollars.
5. `requests` are the calls that it made, `turns` the replies that stand in the trajectory.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from cells.outcome import Ended, PatchState, outcome_of
from scoring.interop.reading import Field, Row, document, file_digest, foreign_row, patch_columns, refuse_repeated

FORMAT = "mini-swe-agent-1.1"
_ENDED = {
    "Submitted": Ended.COMPLETED,
    "TimeExceeded": Ended.WALL_LIMIT,
    "RepeatedFormatError": Ended.HARNESS_ERROR,
}


def trajectory_rows(path: Path) -> list[Row]:
    """The row of one trajectory; in `<run>/<instance>/<instance>.traj.json` the study is the run."""
    return [_row(document(path), path)]


def batch_rows(folder: Path) -> list[Row]:
    """A row a trajectory of a folder, and one an instance of its `preds.json` that has no trajectory."""
    files = sorted({*folder.glob("*.traj.json"), *folder.glob("*/*.traj.json")})
    rows = refuse_repeated((_row(document(path), path) for path in files), str(folder), "instance_id")
    predictions = folder / "preds.json"
    return rows + (_without_trajectory(predictions, rows) if predictions.is_file() else [])


def _row(trajectory: Field, path: Path) -> Row:
    stated = trajectory.at("trajectory_format")
    if stated.value != FORMAT:
        stated.refuse(f"found {stated.value!r}; read is {FORMAT!r}")
    info = trajectory.at("info")
    model = info.at("config").object().at("model").object().at("model_name").text()
    task = trajectory.at("instance_id").text()
    replies = [message for message in trajectory.at("messages").items() if message.at("role").word() == "assistant"]
    return foreign_row(
        study=_run(path, task),
        attempt=task or path.name.removesuffix(".traj.json"),
        task=task,
        arm=model,
        harness="mini-swe-agent",
        model=model,
        sample=1,
        turns=len(replies),
        bundle_sha256=file_digest(path),
        **_spent(info),
        **_end(info),
    )


def _run(path: Path, task: str | None) -> str:
    folder = path.absolute().parent
    return folder.parent.name if folder.name == task else folder.name


def _spent(info: Field) -> Row:
    stats = info.at("model_stats").object()
    calls, cost = stats.at("api_calls").count(), stats.at("instance_cost").money()
    if cost is None or (calls and not Decimal(cost)):
        return {"requests": calls}
    return {"requests": calls, "cost": cost, "currency": "USD"}


def _end(info: Field) -> Row:
    status, submission = info.at("exit_status").text(), info.at("submission").text()
    ended = _limit_of(info) if status == "LimitsExceeded" else _ENDED.get(status or "")
    if ended is None:
        return {"reason": f"exit_status: {status[:100]}" if status else "no exit_status"}
    patch = patch_columns(submission) if ended is Ended.COMPLETED else {}
    state = PatchState(patch["patch"]) if patch else None
    return {"ended": ended.value, "outcome": outcome_of(ended, state), **patch}


def _limit_of(info: Field) -> Ended | None:
    """The limit that was reached, in the order in which the tool asks; None where the numbers prove none."""
    limits, stats = info.at("config").object().at("agent").object(), info.at("model_stats").object()
    steps, calls = limits.at("step_limit").count(), stats.at("api_calls").count()
    if steps and calls is not None and calls >= steps:
        return Ended.TURN_LIMIT
    budget, cost = limits.at("cost_limit").number(), stats.at("instance_cost").number()
    return Ended.COST_LIMIT if budget and cost is not None and cost >= budget > 0 else None


def _without_trajectory(path: Path, rows: list[Row]) -> list[Row]:
    """Rows of predictions whose run never began; the others must be what their trajectory submitted."""
    known = {row["task"]: row for row in rows}
    missing = []
    for task, prediction in document(path).entries():
        stated, model = prediction.at("model_patch"), prediction.at("model_name_or_path").word()
        patch = patch_columns(stated.text())
        if task not in known:
            row: Row = {
                "study": path.absolute().parent.name,
                "attempt": task,
                "task": task,
                "arm": model,
                "model": model,
            }
            row |= {"harness": "mini-swe-agent", "sample": 1, "bundle_sha256": file_digest(path)}
            missing.append(foreign_row(**row, reason="no_trajectory"))
        elif known[task]["patch_sha256"] not in (None, patch.get("patch_sha256")):
            stated.refuse("not what the trajectory of the instance submitted")
    return missing
