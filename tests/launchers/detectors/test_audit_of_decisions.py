"""Evidence of live decisions that was changed afterwards, seals and all, is found by making every decision again.

Each change is consistent: whoever makes it rewrites the seals, too. A reader of seals alone would believe it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cells.artifacts.members import digests, member_names
from cells.attempt import open_sealed
from cells.audit.attempt import audit_attempt
from cells.evidence.digest import canonical_json, digest_bytes

LEDGER, DEBUG = "live/adaptive_control_ledger.jsonl", "live/adaptive_debug.jsonl"
CALL: dict[str, Any] = {"tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]}
Line = dict[str, Any]


@pytest.fixture
def root(bench: Any) -> Path:
    """An attempt with four decisions, the last of them a note."""
    cell = bench.cell(
        [CALL] * 4 + [{"content": "done"}],
        {"duplicate_call": {"action": "note", "warmup": 0, "cadence": 1, "budget": 1, "settings": {"times": 4}}},
    )
    cell.turns(5)
    sealed, _ = cell.seal()
    assert audit_attempt(sealed.root, "a").ok
    return Path(sealed.root)


def reseal(root: Path) -> None:
    """Make both seals fit what lies there now: what an operator who may write everything would do."""
    previous = None
    for phase in ("start", "live"):
        path = root / phase / "SEAL.json"
        seal = json.loads(path.read_bytes())
        names = [name for name in member_names(root, phase) if name != f"{phase}/SEAL.json"]
        seal["members"] = digests(root, names)
        seal["previous"] = previous if phase == "live" else None
        path.write_bytes(canonical_json(seal))
        previous = digest_bytes(path.read_bytes())


def rewrite(root: Path, name: str, change: Callable[[list[Line]], object]) -> None:
    rows = [json.loads(line) for line in (root / name).read_text().splitlines()]
    change(rows)
    (root / name).write_text("".join(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows))
    reseal(root)


def kinds(root: Path) -> set[str]:
    open_sealed(root)  # the seals alone say that all is well
    return {one.kind for one in audit_attempt(root, "a").violations}


def test_a_decision_with_a_later_prefix_is_a_later_row(root: Path) -> None:
    trace = (root / "live/trace.jsonl").read_bytes()

    def change(rows: list[Line]) -> None:
        rows[1]["prefix"] = {"length": len(trace), "digest": digest_bytes(trace)}

    rewrite(root, LEDGER, change)
    assert kinds(root) == {"later_row"}


def test_a_prefix_with_another_digest_or_inside_a_row_differs(root: Path) -> None:
    rewrite(root, DEBUG, lambda rows: rows[1]["prefix"].update(digest=digest_bytes(b"")))
    assert kinds(root) == {"prefix_differs"}


def test_a_prefix_that_ends_inside_a_row_differs(root: Path) -> None:
    rewrite(root, LEDGER, lambda rows: rows[1]["prefix"].update(length=rows[1]["prefix"]["length"] - 1))
    assert kinds(root) == {"prefix_differs"}


def test_a_decision_that_its_prefix_does_not_give_is_found(root: Path) -> None:
    rewrite(root, DEBUG, lambda rows: rows[0].update(decision="note"))
    assert kinds(root) == {"decision_differs"}


def test_a_hidden_decision_is_found(root: Path) -> None:
    rewrite(root, DEBUG, lambda rows: rows[3].update(decision="none"))
    assert kinds(root) == {"decision_differs"}


def test_a_field_that_the_detector_does_not_name_is_found(root: Path) -> None:
    rewrite(root, DEBUG, lambda rows: rows[0]["fields"].append("result_summary"))
    assert kinds(root) == {"field_not_named"}


def test_a_note_on_the_wire_without_a_decision_is_found(root: Path) -> None:
    rewrite(root, LEDGER, lambda rows: rows[3].update(applied=False, action=None, decision="none"))
    assert kinds(root) == {"note_without_decision"}


def test_a_note_that_was_never_sent_is_found(root: Path) -> None:
    rewrite(root, LEDGER, lambda rows: rows[3]["action"].update(note_sha256=digest_bytes(b"another text")))
    assert kinds(root) == {"note_without_decision", "action_differs"}


def test_a_decision_that_is_left_out_is_found(root: Path) -> None:
    rewrite(root, LEDGER, lambda rows: rows.pop(1))
    assert kinds(root) == {"record_broken"}


def test_a_trace_that_the_wire_does_not_give_is_found(root: Path) -> None:
    rewrite(root, "live/trace.jsonl", lambda rows: rows[2].update(result_summary="all tests pass"))
    assert "trace_differs" in kinds(root)


def test_a_state_that_the_trace_does_not_give_is_found(root: Path) -> None:
    (root / "live/.solver/state.json").write_text("{}\n")
    reseal(root)
    assert kinds(root) == {"state_differs"}


def test_decisions_that_nothing_held_are_not_enforced(root: Path) -> None:
    for phase in ("start", "live"):
        path = root / phase / "SEAL.json"
        path.write_bytes(canonical_json(json.loads(path.read_bytes()) | {"boundary": "none"}))
    reseal(root)
    assert kinds(root) == {"not_enforced"}


def test_another_detector_code_is_counted_and_not_judged(root: Path) -> None:
    def change(rows: list[Line]) -> None:
        for row in rows:
            row["code"] = digest_bytes(b"old")

    rewrite(root, DEBUG, change)
    audit = audit_attempt(root, "a")
    assert audit.ok
    assert (audit.decisions, audit.recomputed) == (4, 0)


@pytest.mark.parametrize("name", [LEDGER, DEBUG, "live/trace.jsonl", "live/wire.jsonl", "start/spec.json"])
def test_no_change_of_a_byte_passes_and_none_breaks_the_audit(root: Path, name: str) -> None:
    content = bytearray((root / name).read_bytes())
    generator = random.Random(20261130)
    for _ in range(25):
        at = generator.randrange(len(content))
        changed = bytearray(content)
        changed[at] ^= 1 << generator.randrange(8)
        (root / name).write_bytes(changed)
        assert {one.kind for one in audit_attempt(root, "a").violations} & {"live_changed", "start_changed"}
        reseal(root)
        audit_attempt(root, "a")
        (root / name).write_bytes(content)
        reseal(root)
