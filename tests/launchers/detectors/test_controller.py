"""What the controller does at the end of a turn, and what it writes down about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cells.artifacts.decision_rows import DEBUG, LEDGER, MODEL_CALLS
from cells.artifacts.live_readers import arm_detectors
from cells.attempt import LiveAttempt
from cells.evidence.digest import digest_bytes
from launchers.detectors.controller import Controller
from launchers.detectors.messages import ChildGone
from launchers.detectors.records import Moment
from launchers.gateway.decisions import Decision, ModelReply

Line = dict[str, Any]
ROW = {"event": "tool_call", "segment": 1, "turn": 0, "tool_name": "bash", "arguments": "ls", "reasoning": "private"}
HIT = {"decision": "note", "evidence": [{"turn": 0, "field": "tool_name"}], "facts": {"turns": 8}}
NONE: Line = {"decision": "none", "evidence": [], "facts": {}}


class ScriptedChild:
    """Answers as a script says; remembers what it was told."""

    def __init__(self, script: Callable[[Line], Line | bytes]) -> None:
        self.script, self.told, self.closed = script, [], False  # type: ignore[var-annotated]

    async def ask(self, message: Mapping[str, Any], deadline_s: float = 0) -> bytes:
        self.told.append(dict(message))
        said = self.script(dict(message))
        if isinstance(said, bytes):
            return said
        head = {"v": 1, "turn": message["turn"], "detector": message["detector"]}
        return json.dumps({**head, **said}).encode()

    async def close(self) -> None:
        self.closed = True


def section(**more: Any) -> Line:
    return {"action": "note", "warmup": 0, "cadence": 1, "budget": 9, "settings": {}} | more


async def _nobody(messages: list[dict[str, str]]) -> ModelReply:
    return ModelReply(None, error="nobody")


class Run:
    """A controller with a scripted child over some turns."""

    def __init__(self, root: Path, arm: Line, script: Callable[[Line], Line | bytes], ask: Any = _nobody) -> None:
        self.child, self.root = ScriptedChild(script), root / "a"
        self._arm, self._ask = arm_detectors(arm), ask

    def turns(self, count: int) -> list[Decision]:
        return asyncio.run(self._turns(count))

    async def _turns(self, count: int) -> list[Decision]:
        async def start(first: Mapping[str, Any]) -> ScriptedChild:
            if self.child.script is None:
                raise ChildGone("cannot be started: none")
            return self.child

        controller = Controller(LiveAttempt.create(self.root), self._arm, start, self._ask)
        await controller.start()
        made = []
        for turn in range(count):
            moment = Moment(turn, 1, 100 * (turn + 1), digest_bytes(b"%d" % turn), 1.5)
            made.append(await controller.decide(moment, [ROW | {"turn": turn}]))
        await controller.close()
        return made

    def rows(self, name: str) -> list[Line]:
        path = self.root / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_note_is_rendered_here_from_the_study_template(tmp_path: Path) -> None:
    run = Run(tmp_path, {"no_write": section(settings={"template": "{turns} quiet turns"})}, lambda _: HIT)
    assert run.turns(1) == [Decision("note", "8 quiet turns", "no_write")]


def test_every_decision_is_recorded_with_turn_prefix_length_and_digest(tmp_path: Path) -> None:
    run = Run(tmp_path, {"no_write": section()}, lambda line: HIT if line["turn"] == 1 else NONE)
    run.turns(2)
    for name in (LEDGER, DEBUG):
        rows = run.rows(name)
        assert [(row["turn"], row["prefix"]["length"]) for row in rows] == [(0, 100), (1, 200)]
        assert rows[1]["prefix"]["digest"] == digest_bytes(b"1")
    none, note = run.rows(LEDGER)
    assert (none["applied"], none["why"]) == (False, "no_hit")
    assert (note["applied"], note["action"]["kind"]) == (True, "note")
    assert note["action"]["note_sha256"] == digest_bytes(note["action"]["text"].encode())


def test_only_fields_that_the_detector_names_reach_the_child(tmp_path: Path) -> None:
    run = Run(tmp_path, {"no_write": section()}, lambda _: NONE)
    run.turns(2)
    assert [set(row) for line in run.child.told for row in line["rows"]] == [
        {"event", "segment", "turn", "tool_name", "arguments"}
    ] * 2


def test_a_study_narrows_what_reaches_the_child(tmp_path: Path) -> None:
    run = Run(tmp_path, {"no_write": section(settings={"fields": ["tool_name"]})}, lambda _: NONE)
    run.turns(1)
    assert set(run.child.told[0]["rows"][0]) == {"event", "segment", "turn", "tool_name"}


def test_rows_of_turns_without_a_question_come_with_the_next_question(tmp_path: Path) -> None:
    run = Run(tmp_path, {"no_write": section(warmup=1, cadence=2)}, lambda _: NONE)
    run.turns(4)
    assert [(line["turn"], [row["turn"] for row in line["rows"]]) for line in run.child.told] == [
        (1, [0, 1]),
        (3, [2, 3]),
    ]
    assert [row["why"] for row in run.rows(LEDGER)] == ["warmup", "no_hit", "cadence", "no_hit"]


def test_only_applied_actions_use_the_budget(tmp_path: Path) -> None:
    run = Run(tmp_path, {"no_write": section(budget=2)}, lambda line: NONE if line["turn"] == 1 else HIT)
    assert [one.action for one in run.turns(5)] == ["note", "none", "note", "none", "none"]
    assert [row["why"] for row in run.rows(LEDGER)] == ["hit", "no_hit", "hit", "budget", "budget"]


def test_a_stop_goes_before_a_note_and_the_other_is_recorded_as_superseded(tmp_path: Path) -> None:
    arm = {"no_write": section(), "duplicate_call": section(action="stop")}
    stop = {"decision": "stop", "evidence": [], "facts": {"times": 3}}
    run = Run(tmp_path, arm, lambda line: HIT if line["detector"] == "no_write" else stop)
    assert run.turns(1) == [Decision("stop", by="duplicate_call")]
    assert {(row["detector"], row["applied"], row["why"]) for row in run.rows(LEDGER)} == {
        ("no_write", False, "superseded"),
        ("duplicate_call", True, "hit"),
    }


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"not json", "not an answer"),
        (HIT | {"turn": 7}, "answered no_write 7 note; asked no_write 0 note"),
        (HIT | {"detector": "other"}, "answered other"),
        (HIT | {"decision": "stop"}, "answered no_write 0 stop"),
        (HIT | {"evidence": [{"turn": 5, "field": "tool_name"}]}, "later turn than 0"),
        (HIT | {"evidence": [{"turn": 0, "field": "result_summary"}]}, "does not name"),
        (HIT | {"facts": {"verdict": "resolved"}}, "does not have"),
        (HIT | {"facts": {"turns": "x" * 81}}, "not an answer"),
        (HIT | {"ask": {"messages": [{"role": "user", "content": "x"}]}}, "does not have"),
        (HIT | {"extra": 1}, "not an answer"),
    ],
)
def test_a_child_that_says_what_it_may_not_say_decides_nothing_any_more(tmp_path: Path, said: Any, reason: str) -> None:
    run = Run(tmp_path, {"no_write": section()}, lambda _: said)
    assert [one.action for one in run.turns(3)] == ["none"] * 3
    whys = [row["why"] for row in run.rows(LEDGER)]
    assert all(why.startswith("child_gone:") and reason in why for why in whys)
    assert len(run.child.told) == 1
    assert run.child.closed


def test_a_child_that_never_came_up_is_recorded_and_the_run_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path, {"no_write": section()}, None)  # type: ignore[arg-type]
    assert [one.action for one in run.turns(1)] == ["none"]
    assert run.rows(LEDGER)[0]["why"] == "child_gone: cannot be started: none"


def _model_arm() -> Line:
    return {"model_hurdle": section()}


ASK = {"decision": "none", "evidence": [], "facts": {}, "ask": {"messages": [{"role": "user", "content": "stuck?"}]}}


def test_a_model_backed_call_is_asked_judged_and_recorded_with_its_role(tmp_path: Path) -> None:
    async def ask(messages: list[dict[str, str]]) -> ModelReply:
        assert messages == [{"role": "user", "content": "stuck?"}]
        return ModelReply("YES " + "x" * 5000, exchange=7)

    run = Run(tmp_path, _model_arm(), lambda line: HIT | {"facts": {"hurdle": "h"}} if "reply" in line else ASK, ask)
    assert run.turns(1)[0].action == "note"
    assert len(run.child.told[1]["reply"]) == 2000
    (row,) = run.rows(MODEL_CALLS)
    assert (row["role"], row["result"], row["reply"]["exchange"], row["turn"]) == ("detector", "note", 7, 0)
    assert row["reply"]["text"] == run.child.told[1]["reply"]
    assert row["input"] == {
        "messages": 1,
        "chars": 6,
        "sha256": digest_bytes(b'[{"content":"stuck?","role":"user"}]'),
    }


def test_a_model_that_does_not_answer_decides_nothing_and_the_child_lives(tmp_path: Path) -> None:
    run = Run(tmp_path, _model_arm(), lambda _: ASK)
    assert [one.action for one in run.turns(2)] == ["none", "none"]
    assert [row["reply"]["error"] for row in run.rows(MODEL_CALLS)] == ["nobody", "nobody"]
    assert [row["why"] for row in run.rows(LEDGER)] == ["no_hit", "no_hit"]
