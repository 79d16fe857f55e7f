"""Launchers of real programs: what they run, what they say of the cell, how their records are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cells.outcome import Ended
from launchers.harnesses import Claims, HarnessExit, Launch, SettingsError, check_settings, harness
from launchers.layers.recipe import layer_names

REAL = ("claude-code", "codex", "mini-swe-agent")
PROMPT = b"do it; $(touch /tmp/x) 'quoted'\n"


def launched(name: str, settings: dict[str, Any] | None = None) -> Launch:
    return Launch(
        settings=check_settings(name, settings or {}),
        prompt=PROMPT,
        workdir="/workspace",
        model="served",
        input_limit=None,
        base_url="http://127.0.0.1:8377",
        socket="/gw/model.sock",
    )


def reading(name: str, content: bytes | None) -> Claims | None:
    return harness(name).claims(lambda _: content)


@pytest.mark.parametrize("name", REAL)
def test_its_software_comes_from_its_layer_and_the_prompt_by_stdin_only(name: str) -> None:
    program = harness(name)
    assert program.layer == name and name in layer_names()
    words = program.command(launched(name))
    assert any(word.startswith("/assay/layer/") for word in words)
    assert not any("touch" in word for word in words)
    assert program.stdin(launched(name)) == PROMPT
    assert program.needs_model and program.needs_forwarder and program.keeps_records and program.control is None


@pytest.mark.parametrize(
    ("name", "model_word"), [("mini-swe-agent", "openai/served"), ("claude-code", "served"), ("codex", "served")]
)
def test_it_is_told_the_served_model(name: str, model_word: str) -> None:
    words = harness(name).command(launched(name))
    flag = next(index for index, word in enumerate(words) if word in ("--model", "-m"))
    assert words[flag + 1] == model_word


def test_codex_and_mini_swe_agent_are_pointed_at_the_cells_gateway_by_their_arguments() -> None:
    for name in ("codex", "mini-swe-agent"):
        assert any("http://127.0.0.1:8377/v1" in word for word in harness(name).command(launched(name)))


@pytest.mark.parametrize(
    ("name", "settings", "key"),
    [
        ("mini-swe-agent", {"step_limit": -1}, "step_limit"),
        ("mini-swe-agent", {"config": ["--yolo"]}, "config.0"),
        ("claude-code", {"max_turns": 0}, "max_turns"),
        ("codex", {"reasoning_effort": "much"}, "reasoning_effort"),
        ("codex", {"model": "x"}, "model"),
    ],
)
def test_wrong_settings_are_named_by_their_key(name: str, settings: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_settings(name, settings)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("name", "settings", "word"),
    [
        ("mini-swe-agent", {"step_limit": 7}, "agent.step_limit=7"),
        ("mini-swe-agent", {"config": ["model.model_kwargs.temperature=0"]}, "model.model_kwargs.temperature=0"),
        ("claude-code", {"max_turns": 3}, "3"),
        ("claude-code", {"append_system_prompt": "Be brief."}, "Be brief."),
        ("codex", {"reasoning_effort": "low"}, 'model_reasoning_effort="low"'),
    ],
)
def test_settings_reach_the_command(name: str, settings: dict[str, Any], word: str) -> None:
    assert word in harness(name).command(launched(name, settings))
    assert word not in harness(name).command(launched(name))


def test_an_agent_that_did_not_submit_is_a_harness_error_with_its_reason() -> None:
    ended, detail = harness("mini-swe-agent").ended(HarnessExit(10, None))
    assert ended is Ended.HARNESS_ERROR and "without submitting" in detail


def test_claims_of_mini_swe_agent_are_its_calls_and_the_usage_of_each_answer() -> None:
    answer: dict[str, Any] = {"role": "assistant", "tool_calls": [{}, {}]}
    answer["extra"] = {"response": {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}}
    info = {"model_stats": {"api_calls": 2}}
    document = {"info": info, "messages": [{"role": "user"}, answer, answer]}
    assert reading("mini-swe-agent", json.dumps(document).encode()) == Claims(2, 4, 14, 4)
    answer["extra"] = {"response": {"usage": None}}
    assert reading("mini-swe-agent", json.dumps(document).encode()) == Claims(2, 4, None, None)


def test_claims_of_claude_code_are_the_tokens_of_its_result_cached_ones_too() -> None:
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 4}
    assert reading("claude-code", json.dumps({"usage": usage}).encode()) == Claims(input_tokens=10, output_tokens=4)


def test_claims_of_codex_are_the_tokens_of_its_turns() -> None:
    rows = [{"type": "turn.started"}] + 2 * [
        {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}}
    ]
    events = "\n".join(json.dumps(row) for row in rows).encode()
    assert reading("codex", events) == Claims(input_tokens=10, output_tokens=2)
    assert reading("codex", b'{"type": "turn.started"}') is None


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize(
    "content", [None, b"", b"\xff", b"[]", b"{", b'{"usage": 3}', b'{"messages": [1]}', b'{"type": 1}\n7', b"null"]
)
def test_a_record_that_is_not_one_claims_nothing(name: str, content: bytes | None) -> None:
    assert reading(name, content) is None
