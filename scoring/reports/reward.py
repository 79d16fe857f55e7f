"""Reward file of a `script` verifier: one number, or a JSON object with the number under `reward` (or as its only
entry).

Rules:
1. The number is finite and between 0 and 1; it is kept exactly, as a fraction.
2. The task is resolved exactly when the reward is 1.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from scoring.reports.json_lines import one_document
from scoring.reports.model import Report, ReportUnreadable

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
_MAX_BYTES = 64 << 10


def read_reward(content: bytes) -> Report:
    """The reward of a run."""
    if len(content) > _MAX_BYTES:
        raise ReportUnreadable(f"a reward file of {len(content)} bytes, allowed {_MAX_BYTES}")
    try:
        text = content.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise ReportUnreadable("a reward file that is not UTF-8") from error
    return Report(reward=_number(_entry(one_document(content)) if text.startswith("{") else text))


def _entry(document: dict[str, Any]) -> str:
    value = document.get("reward") if "reward" in document else None
    if value is None and len(document) == 1:
        value = next(iter(document.values()))
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise ReportUnreadable("expected one number, under `reward` or as the only entry")
    return str(value)


def _number(text: str) -> Fraction:
    if not _NUMBER.fullmatch(text):
        raise ReportUnreadable(f"expected a finite number, found {text[:40]!r}")
    reward = Fraction(text)
    if not 0 <= reward <= 1:
        raise ReportUnreadable(f"expected a reward between 0 and 1, found {text[:40]}")
    return reward
