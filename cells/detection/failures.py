"""What failed in a tool result, and how: names and messages of failing tests, without what changes from run to run.

The result of a call is capped in the trace, so this is a reading of what is there; an exit status is never guessed
from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_NAMES = (
    re.compile(r"^FAILED (\S.*?)(?: - .*)?$", re.M),
    re.compile(r"^_{3,} (?:ERROR (?:at|collecting) )?(.+?) _{3,}$", re.M),
    re.compile(r"^(?:FAIL|ERROR): (\S+ \(\S+\))$", re.M),
    re.compile(r"^not ok \d+ -? ?(.+)$", re.M),
    re.compile(r"^\s*--- FAIL: (\S+)", re.M),
    re.compile(r"^test (\S+) \.\.\. FAILED$", re.M),
    re.compile(r"^\s*✕ (.+?)(?: \(\d+ ?ms\))?$", re.M),
)
_MESSAGES = re.compile(r"^(?:E\s{2,}|\s*)(\w*(?:Error|Exception|Failure|panicked)\b.*)$", re.M)
_VOLATILE = re.compile(r"0x[0-9a-fA-F]+|\b\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds)\b|(?<=line )\d+|(?<=:)\d+(?=:)|/tmp/\S+")


def failure_signature(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The failing tests and messages of a tool result, sorted; None when it shows no failure.

    Tests that name themselves count whatever the status; otherwise the harness has to say in a field that it failed.
    """
    text, status = row.get("result_summary"), row.get("exit_status")
    failed = row.get("is_error") is True or (isinstance(status, int) and status != 0)
    return _signature(text if isinstance(text, str) else "", str(row.get("tool_name")), failed)


@lru_cache(maxsize=8192)
def _signature(text: str, tool_name: str, failed: bool) -> tuple[str, ...] | None:
    """Kept for each result: old results are looked at again at every turn, and do not change."""
    names = sorted({match[1].strip() for pattern in _NAMES for match in pattern.finditer(text)})
    messages = sorted({_VOLATILE.sub("#", match[1].strip()) for match in _MESSAGES.finditer(text)})
    if names:
        return (*names, *messages)
    if not failed:
        return None
    return (tool_name, *(messages or [_VOLATILE.sub("#", text)[:200]]))
