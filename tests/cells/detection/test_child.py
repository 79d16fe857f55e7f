"""The child's program answers line by line, and imports nothing that a bare interpreter does not have."""

from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path

import cells.detection
from cells.detection.child import serve

SETTINGS = {
    "v": 1,
    "detectors": {
        "duplicate_call": {"action": "stop", "settings": {"times": 2}},
        "model_hurdle": {"action": "note", "settings": {}},
    },
}
ROW = {"event": "tool_call", "segment": 1, "turn": 0, "tool_name": "bash", "args_sha256": "a", "output_sha256": "o"}


def _said(*lines: object) -> list[dict[str, object]]:
    sink = io.StringIO()
    serve(io.StringIO("".join(json.dumps(line) + "\n" for line in lines)), sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def test_rows_add_up_and_a_hit_is_the_action_of_the_arm() -> None:
    first = {"v": 1, "turn": 0, "detector": "duplicate_call", "rows": [ROW]}
    second = {"v": 1, "turn": 1, "detector": "duplicate_call", "rows": [ROW | {"turn": 1}]}
    ready, none, stop = _said(SETTINGS, first, second)
    assert ready["ready"] == ["duplicate_call", "model_hurdle"]
    assert none["decision"] == "none"
    assert stop["decision"] == "stop"
    assert stop["evidence"] == [{"turn": 0, "field": "args_sha256"}, {"turn": 1, "field": "args_sha256"}]


def test_each_detector_has_rows_of_its_own() -> None:
    first = {"v": 1, "turn": 0, "detector": "duplicate_call", "rows": [ROW]}
    other = {"v": 1, "turn": 0, "detector": "model_hurdle", "rows": []}
    _, _, asked_nothing = _said(SETTINGS, first, other)
    assert "ask" not in asked_nothing


def test_a_question_comes_before_the_reply_is_judged() -> None:
    ask = {"v": 1, "turn": 0, "detector": "model_hurdle", "rows": [ROW]}
    _, question, judged = _said(SETTINGS, ask, {**ask, "rows": [], "reply": "YES"})
    assert question["ask"]
    assert judged["decision"] == "note"


def test_the_package_imports_only_the_standard_library_and_itself() -> None:
    for module in Path(cells.detection.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names or name.startswith("cells.detection"), (
                    module.name,
                    name,
                )
