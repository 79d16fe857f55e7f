"""Following a running cell: its trace, event by event, while it grows. Metadata only, unless content is asked for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cells.design.matrix import PlannedCell
from cells.errors import UsageError
from flows.freezing import FrozenStudy
from flows.status import read_state

_POLL_S = 0.5
_SHOWN = 400
_METADATA = (
    "tool_name",
    "args_digest",
    "exit_status",
    "role",
    "prompt_tokens",
    "completion_tokens",
    "finish_reason",
    "kind",
)


def follow_cell(study: FrozenStudy, cell: PlannedCell, *, content: bool) -> Iterator[str]:
    """One line an event, until the cell runs no more. UsageError when it is not running."""
    row = _running(study, cell)
    if row is None:
        raise UsageError(f"cell {cell.spec.directory} is not running; `assay show` without --follow shows what it left")
    trace = study.store.stage_path(f"cells/{cell.spec.directory}/attempts/{row['attempt']}") / "live" / "trace.jsonl"
    offset = 0
    while True:
        running = _running(study, cell)
        lines, offset = _new_lines(trace, offset)
        yield from (_told(json.loads(line), content) for line in lines)
        if running is None or running["attempt"] != row["attempt"]:
            return
        time.sleep(_POLL_S)


def _running(study: FrozenStudy, cell: PlannedCell) -> dict[str, Any] | None:
    return next((row for row in read_state(study).running if row["cell"] == cell.spec.directory), None)


def _new_lines(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Whole lines after `offset`; a line that is still being written is left for the next time."""
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            found = stream.read()
    except FileNotFoundError:
        return [], offset
    whole = found[: found.rfind(b"\n") + 1]
    return whole.splitlines(), offset + len(whole)


def _told(row: dict[str, Any], content: bool) -> str:
    head = f"{row.get('t_mono_s', 0):8.2f} s  turn {row.get('turn', '-')}  {row['event']}"
    chosen = row if content else {key: row[key] for key in _METADATA if row.get(key) is not None}
    known = ("v", "seq", "event", "t_mono_s", "turn", "segment", "lane", "wire")
    rest = {key: value for key, value in chosen.items() if key not in known and value is not None}
    return f"{head}  {json.dumps(rest, ensure_ascii=False)[:_SHOWN]}" if rest else head
