"""Our accepted attempts as SWE-bench predictions: the patch that we verified, under the name of its arm.

Rules:
1. A file of predictions holds one arm and one sample: SWE-bench keys them by instance.
2. An empty or a rejected patch is an empty prediction: SWE-bench counts it as unresolved, as we do.
3. An attempt whose patch is not known, or unappliable by our fault, makes no prediction: it is not a failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cells.errors import EvidenceError
from cells.evidence.digest import digest_bytes
from cells.evidence.files import read_regular
from cells.outcome import PatchState
from scoring.collected import filtered_name
from scoring.table import cell_row


def swebench_predictions(bundles: Iterable[Path]) -> dict[str, bytes]:
    """Bytes of a `preds.jsonl` by its name, one an arm and sample (`<arm>`, `<arm>.sample-2`, ...).

    EvidenceError for two attempts of one cell, a patch that is not the one of the gate, or not UTF-8.
    """
    files: dict[str, dict[str, str]] = {}
    for bundle in bundles:
        row = cell_row(bundle)
        patch = _patch(bundle, row)
        if patch is None:
            continue
        arm = row["arm"] if row["sample"] == 1 else f"{row['arm']}.sample-{row['sample']}"
        tasks = files.setdefault(arm, {})
        if row["task"] in tasks:
            raise EvidenceError(f"{bundle}: a second attempt of task {row['task']!r} of {arm!r}; asked for one a cell")
        tasks[row["task"]] = patch
    return {arm: b"".join(_line(task, arm, patch) for task, patch in tasks.items()) for arm, tasks in files.items()}


def _patch(bundle: Path, row: dict[str, Any]) -> str | None:
    if row["patch"] in (PatchState.EMPTY, PatchState.REJECTED):
        return ""
    if row["patch"] != PatchState.PRESENT:
        return None
    path = bundle / filtered_name(row["task"])
    content = read_regular(path)
    if digest_bytes(content) != row["patch_sha256"]:
        raise EvidenceError(f"{path}: not the patch whose digest is in gate.json")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvidenceError(f"{path}: not UTF-8, and a prediction is text ({error})") from error


def _line(task: str, arm: str, patch: str) -> bytes:
    prediction = {"instance_id": task, "model_name_or_path": arm, "model_patch": patch}
    return json.dumps(prediction, sort_keys=True).encode() + b"\n"
