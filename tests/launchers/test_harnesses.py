"""Harnesses by name, their settings at plan time, what they run and how their end is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cells.errors import UsageError
from cells.evidence.digest import canonical_json
from cells.outcome import Ended
from launchers.harnesses import HARNESSES, Gather, HarnessExit, Launch, SettingsError, check_settings, harness

LAUNCH = Launch(
    settings={},
    prompt=b"do it\n",
    workdir="/workspace",
    model="served",
    input_limit=1000,
    base_url="http://127.0.0.1:1",
    socket="/gw/model.sock",
)


def launched(name: str, settings: dict[str, Any], **more: Any) -> Launch:
    return Launch(**{**LAUNCH.__dict__, "settings": check_settings(name, settings), **more})


def test_an_unknown_name_is_answered_with_what_there_is() -> None:
    with pytest.raises(UsageError, match="asked for harness 'refrence'; there are .*command.*nop.*oracle.*reference"):
        harness("refrence")


@pytest.mark.parametrize(
    ("name", "settings", "key"),
    [
        ("reference", {"prompt_sufix": "x"}, "prompt_sufix"),
        ("reference", {"bash_timeout_s": 0}, "bash_timeout_s"),
        ("reference", {"max_tokens": "many"}, "max_tokens"),
        ("reference", {"temperature": 3}, "temperature"),
        ("command", {}, "command"),
        ("command", {"command": []}, "command"),
        ("command", {"command": "ls"}, "command"),
        ("command", {"command": ["a\x00b"]}, "command.0"),
        ("command", {"command": ["ls"], "stdin": "file"}, "stdin"),
        ("nop", {"anything": 1}, "anything"),
        ("oracle", {"patch": "x"}, "patch"),
    ],
)
def test_wrong_settings_are_named_by_their_key(name: str, settings: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_settings(name, settings)
    assert caught.value.key == key
    assert f'"{name}"' in str(caught.value) and "allowed are" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "settings"), [("reference", {}), ("command", {"command": ["ls"]}), ("oracle", {}), ("nop", {})]
)
def test_checked_settings_are_whole_canonical_and_checked_again_the_same(name: str, settings: dict[str, Any]) -> None:
    once = check_settings(name, settings)
    assert set(once) == set(harness(name).settings_model.model_fields)
    assert check_settings(name, json.loads(canonical_json(once))) == once


def test_only_exit_zero_is_completed() -> None:
    for one in HARNESSES.values():
        assert one.ended(HarnessExit(0, None)) == (Ended.COMPLETED, "exit 0")
        assert one.ended(HarnessExit(3, None)) == (Ended.HARNESS_ERROR, "exit 3")
        assert one.ended(HarnessExit(None, 9)) == (Ended.HARNESS_ERROR, "signal 9")


def test_command_runs_the_users_words_with_the_prompt_on_stdin() -> None:
    command = harness("command")
    launch = launched("command", {"command": ["sh", "-c", "cat"], "gather": ["log/*.txt"], "env": {"A": "b"}})
    assert command.command(launch) == ("sh", "-c", "cat")
    assert command.stdin(launch) == b"do it\n"
    assert command.environment(launch) == {"A": "b"}
    assert command.gathers(launch.settings) == (Gather("workdir", "log/*.txt"),)
    assert command.stdin(launched("command", {"command": ["ls"], "stdin": "none"})) == b""


def test_the_gold_patch_reaches_the_oracle_by_stdin_only_and_never_without_being_given() -> None:
    oracle = harness("oracle")
    launch = launched("oracle", {}, gold_patch=b"diff --git a/x b/x\n")
    assert oracle.stdin(launch) == b"diff --git a/x b/x\n"
    assert b"diff" not in " ".join(oracle.command(launch)).encode() and oracle.environment(launch) == {}
    with pytest.raises(UsageError, match="gold patch"):
        oracle.stdin(launched("oracle", {}))


def test_controls_are_marked_and_have_no_model() -> None:
    assert {name: one.control for name, one in HARNESSES.items() if one.control} == {"oracle": "oracle", "nop": "nop"}
    assert not any(one.needs_model or one.speaks for one in HARNESSES.values() if one.control)


def test_the_reference_harness_finds_its_settings_and_its_trace() -> None:
    reference = harness("reference")
    launch = launched("reference", {"prompt_suffix": "Check it."})
    environment = reference.environment(launch)
    assert json.loads(environment["ASSAY_SETTINGS"])["prompt_suffix"] == "Check it."
    assert environment["ASSAY_TRACE_FILE"] == "/assay/records/reference.trace.jsonl"
    assert reference.gathers(launch.settings) == (Gather("records", "reference.trace.jsonl"),)
