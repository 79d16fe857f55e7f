"""unittest's verbose console text, as Django's test runner prints it: `test_x (module.Class) ... ok`.

Rules:
1. The id is what stands before ` ... `, or the line before, where the first line of a docstring stands between.
2. Output of a test between ` ... ` and the result is passed over; a test without a result has none.
"""

from __future__ import annotations

import re

from scoring.console.text import lines_of

_TEST = re.compile(r"(?P<id>\w+ \([\w.<>]+\))(?P<rest>.*)")
_RESULT = re.compile(r"(?P<output>.*?)(?P<word>ok|FAIL|ERROR|skipped\b.*|expected failure|unexpected success)")
_WORDS = {
    "ok": "passed",
    "FAIL": "failed",
    "ERROR": "error",
    "expected failure": "xfailed",
    "unexpected success": "xpassed",
}


def read_unittest_text(log: bytes) -> dict[str, str]:
    """Results by `test (module.Class)`."""
    found: dict[str, str] = {}
    waiting: str | None = None
    for line in lines_of(log):
        if line.startswith(("====", "----")):
            break  # failures and the summary follow, which name tests again
        test = _TEST.match(line)
        if test is not None:
            waiting, line = test["id"], test["rest"]
        if waiting is None:
            continue
        _, dots, after = line.partition(" ... ")
        result = _RESULT.fullmatch(after if dots else line)
        if result is not None and (dots or not result["output"]):
            found[waiting] = _WORDS.get(result["word"], "skipped")
            waiting = None
    return found
