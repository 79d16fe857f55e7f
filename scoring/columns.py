"""Columns of the cells table: name, type, unit, meaning (20-interface). Unknown is null, never 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "count", "number", "flag", "digest", "decimal", "list"]


@dataclass(frozen=True)
class Column:
    """One column; `unit` is empty for words and identifiers."""

    name: str
    kind: Kind
    unit: str
    meaning: str


COLUMNS = (
    Column("study", "text", "", "name of the study"),
    Column("cell_id", "digest", "", "digest of start/spec.json: the cell's identity"),
    Column("attempt", "text", "", "name of the attempt in its cell"),
    Column("task", "text", "", "id of the task"),
    Column("repository", "text", "", "repository of the task: the cluster of the statistics"),
    Column("arm", "text", "", "name of the arm"),
    Column("harness", "text", "", "name of the harness"),
    Column("model", "text", "", "model that was asked"),
    Column("input_limit", "count", "tokens", "input limit of the arm"),
    Column("sample", "count", "", "index of the statistical repetition, from 1"),
    Column("order", "count", "", "position of the cell in the frozen order"),
    Column("outcome", "text", "", "ended, or empty_patch for a completed run that changed nothing"),
    Column("ended", "text", "", "how the live side ended"),
    Column("patch", "text", "", "present, empty, rejected or unappliable"),
    Column("verdict", "text", "", "resolved, unresolved, invalid or not_run"),
    Column("reason", "text", "", "reason of the verdict"),
    Column("verification", "count", "", "number of the verification that the verdict comes from; 1: the attempt's own"),
    Column("resolved", "count", "", "1 or 0; null for invalid and not_run"),
    Column("f2p_passed", "count", "tests", "tests that must turn and passed"),
    Column("f2p_total", "count", "tests", "tests that must turn"),
    Column("f2p_fraction", "number", "", "f2p_passed / f2p_total; 0 where the total is 0"),
    Column("p2p_passed", "count", "tests", "tests that must stay and passed"),
    Column("p2p_total", "count", "tests", "tests that must stay"),
    Column("turns", "count", "", "completed exchanges of lane main"),
    Column("requests", "count", "", "requests to the gateway"),
    Column("input_tokens", "count", "tokens", "prompt tokens of all replies"),
    Column("cached_tokens", "count", "tokens", "part of input_tokens that came from a cache"),
    Column("output_tokens", "count", "tokens", "completion tokens of all replies"),
    Column("cost", "decimal", "currency", "exact cost of all replies, a decimal"),
    Column("currency", "text", "", "ISO 4217 code of cost"),
    Column("wall_s", "number", "s", "all phases of the attempt"),
    Column("active_s", "number", "s", "run without the time in which the cell waited for its provider"),
    Column("run_s", "number", "s", "from the harness's start to its end"),
    Column("verify_s", "number", "s", "the verification"),
    Column("cpu_s", "number", "s", "CPU time of the agent's container"),
    Column("memory_peak_mb", "number", "MiB", "highest memory of the agent's container"),
    Column("cpu_throttled_s", "number", "s", "time in which the container was throttled"),
    Column("oom_kills", "count", "", "processes that the kernel ended for memory"),
    Column("host_load", "number", "", "mean one-minute load of the machine a core"),
    Column("contaminated", "flag", "", "a leak, or the machine beyond the study's limits; changes no verdict"),
    Column("exposure", "list", "", "what processes of the cell could reach beside the task"),
    Column("patch_bytes", "count", "bytes", "size of the filtered patch"),
    Column("patch_files", "count", "files", "files that the filtered patch changes"),
    Column("patch_sha256", "digest", "", "digest of the filtered patch"),
    Column("started_at", "text", "UTC", "start of the attempt, RFC 3339"),
    Column("runtime_sha256", "digest", "", "runtime fingerprint"),
    Column("bundle_sha256", "digest", "", "digest of manifest.json, or of another tool's file; null before publishing"),
)
NAMES = tuple(column.name for column in COLUMNS)
