"""Inspect: the samples of a `.eval` log as rows, one a sample and epoch.

Rules (inspect_ai 0.3.285, `log/_log.py`, `model/_model_output.py`, `scorer/_metric.py`):
1. The score is that of the log's headline scorer, or the only one; where neither tells, the verdict is null.
2. `C`, true and 1 are resolved; `I`, `N`, false and 0 are unresolved. What lies between is no verdict: null, and the
   reason has the value. A threshold is never assumed.
3. A sample with an error, or one that was invalidated, is `invalid` whatever its score.
4. `input_tokens` of the log leave out what a cache read or wrote; those of a row have it. Costs are US dollars.
5. `sample` is the epoch; `study` the run. A log without samples (`--no-log-samples`) is refused.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from cells.errors import InputFileError
from cells.evidence.digest import digest_bytes
from cells.outcome import Ended, Verdict, resolved_of
from scoring.interop.reading import Field, Row, foreign_row, refuse_repeated
from scoring.interop.zip_members import ZipMembers

LOG_VERSION = 2
_LIMITS = {
    "context": Ended.CONTEXT_LIMIT,
    "cost": Ended.COST_LIMIT,
    "message": Ended.TURN_LIMIT,
    "operator": Ended.STOPPED_BY_CONTROLLER,
    "time": Ended.WALL_LIMIT,
    "token": Ended.TOKEN_LIMIT,
    "turn": Ended.TURN_LIMIT,
    "working": Ended.WALL_LIMIT,
}
_RESOLVED, _UNRESOLVED = ("C", True, 1), ("I", "N", False, 0)


def eval_rows(path: Path) -> list[Row]:
    """The rows of a log."""
    log = ZipMembers(path)
    header = log.document("header.json")
    version = header.at("version")
    if version.value != LOG_VERSION or isinstance(version.value, bool):
        version.refuse(f"found {version.value!r}; read is version {LOG_VERSION}")
    _check_counts(header.at("results").object())
    samples = sorted(name for name in log.names if name.startswith("samples/") and name.endswith(".json"))
    if not samples:
        raise InputFileError(str(path), "none in the log; asked for a log with its samples", key="samples")
    known = _of_log(header) | {"bundle_sha256": digest_bytes(log.content)}
    headline = header.at("results").object().at("headline").object().at("score").text()
    rows = [_row(log.document(name), known, headline) for name in samples]
    return refuse_repeated(rows, str(path), "samples: id and epoch")


def eval_folder_rows(folder: Path) -> list[Row]:
    """The rows of all logs of a folder."""
    return [row for path in sorted(folder.glob("*.eval")) for row in eval_rows(path)]


def _check_counts(results: Field) -> None:
    total, completed = results.at("total_samples").count(), results.at("completed_samples")
    done = completed.count()
    if total is not None and done is not None and done > total:
        completed.refuse(f"{done} of {total} samples")


def _of_log(header: Field) -> Row:
    facts = header.at("eval")
    model, solver = facts.at("model").word(), facts.at("solver").text()
    return {
        "study": facts.at("run_id").word(),
        "attempt": facts.at("eval_id").word(),
        "arm": f"{solver}/{model}" if solver else model,
        "harness": solver,
        "model": model,
    }


def _row(sample: Field, known: Row, headline: str | None) -> Row:
    named, epoch = sample.at("id"), sample.at("epoch").count()
    task = str(named.count()) if isinstance(named.value, int) else named.word()
    if not epoch:
        sample.at("epoch").refuse(f"expected an epoch from 1, found {epoch}")
    own = {"attempt": f"{known['attempt']}/{task}_epoch_{epoch}", "task": task, "sample": epoch}
    return foreign_row(
        **(known | own),
        turns=sample.at("turn_count").count(),
        wall_s=sample.at("total_time").seconds(),
        started_at=sample.at("started_at").moment(),
        **_tokens(sample.at("model_usage").object()),
        **_end(sample),
        **_verdict(sample, headline),
    )


def _tokens(usage: Field) -> Row:
    """Sums over the models of a sample; a sum is null where no model, or not every model, tells its part."""
    models = [entry for _, entry in usage.entries()]
    read = _sum([model.at("input_tokens_cache_read").count() for model in models])
    prompt = [
        _sum(
            [count, model.at("input_tokens_cache_read").count() or 0, model.at("input_tokens_cache_write").count() or 0]
        )
        for model in models
        for count in [model.at("input_tokens").count()]
    ]
    costs = [model.at("total_cost").money() for model in models]
    cost = None if not costs or None in costs else sum((Decimal(one) for one in costs if one is not None), Decimal(0))
    return {
        "input_tokens": _sum(prompt),
        "cached_tokens": read,
        "output_tokens": _sum([model.at("output_tokens").count() for model in models]),
        "cost": None if cost is None else format(cost, "f"),
        "currency": None if cost is None else "USD",
    }


def _sum(counts: list[int | None]) -> int | None:
    return None if not counts or None in counts else sum(count for count in counts if count is not None)


def _end(sample: Field) -> Row:
    """How the sample ended; after an error, or at a limit that is no word of ours, unknown."""
    if sample.at("error").value is not None:
        return {}
    limit = sample.at("limit").object()
    ended = _LIMITS.get(limit.at("type").word()) if limit.value else Ended.COMPLETED
    return {} if ended is None else {"ended": ended.value, "outcome": ended.value}


def _verdict(sample: Field, headline: str | None) -> Row:
    if sample.at("error").value is not None:
        return {"verdict": Verdict.INVALID.value, "reason": "sample_error"}
    if sample.at("invalidation").value is not None:
        return {"verdict": Verdict.INVALID.value, "reason": "invalidated"}
    scores = sample.at("scores").object()
    names = list(scores.members())
    if not names:
        return {"reason": "not_scored"}
    name = headline if headline in names else names[0] if len(names) == 1 else None
    if name is None:
        return {"reason": f"several scores, none of them the headline: {', '.join(names)[:200]}"}
    return _judged(scores.at(name).at("value"))


def _judged(value: Field) -> Row:
    if isinstance(value.value, int | float | Decimal) and not isinstance(value.value, bool):
        value.number()
    if isinstance(value.value, list | dict) or value.value is None:
        return {"reason": "a score of no or several values"}
    if value.value in _RESOLVED:
        verdict, reason = Verdict.RESOLVED, None
    elif value.value in _UNRESOLVED:
        verdict, reason = Verdict.UNRESOLVED, "no_answer" if value.value == "N" else "scored_incorrect"
    else:
        return {"reason": f"score: {str(value.value)[:100]}"}
    return {"verdict": verdict.value, "reason": reason, "resolved": resolved_of(verdict)}
