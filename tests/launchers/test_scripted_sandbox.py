"""The deterministic sandbox keeps the promises of the protocol that it implements."""

from __future__ import annotations

import pytest

from cells.errors import InfraFailure
from cells.sandbox import ChannelClosed, ChannelTimeout, ContainerSpec, Exit, Frame, Limits, Owner, SandboxFactory
from launchers.scripted_sandbox import Program, Replies, ScriptedSandboxes

OWNER = Owner("s", "c", "a001", "agent", 60)
SPEC = ContainerSpec(OWNER, "image", ("x",), Limits())
END = Exit(0, oom_killed=False, killed_by_us=None, engine_changed=False)


def echo() -> Program:
    return Replies(
        opening=(Frame({"type": "hello"}),),
        answers={"say": lambda frame: (Frame({"type": "said"}, frame.body),), "go": lambda frame: (END,)},
    )


def test_it_is_a_sandbox_factory() -> None:
    factory: SandboxFactory = ScriptedSandboxes({"agent": echo})
    assert factory.engine_identity()["name"] == "scripted"


def test_it_speaks_when_started_and_when_spoken_to_and_is_silent_otherwise() -> None:
    container = ScriptedSandboxes({"agent": echo}).create(SPEC)
    channel = container.attach()
    container.start()
    assert channel.receive(0.0, 0) == Frame({"type": "hello", "size": 0})
    channel.send({"type": "say"}, b"x")
    assert channel.receive(0.0, 1).body == b"x"
    channel.send({"type": "unknown"})
    with pytest.raises(ChannelTimeout):
        channel.receive(0.0, 1)


def test_what_was_said_before_the_end_is_still_heard() -> None:
    container = ScriptedSandboxes({"agent": echo}).create(SPEC)
    container.start()
    assert container.wait(0.0) is None
    container.send({"type": "go"})
    assert container.wait(0.0) == END and container.kill("late") == END
    assert container.receive(0.0, 0).type == "hello"
    with pytest.raises(ChannelClosed):
        container.receive(0.0, 0)
    with pytest.raises(ChannelClosed):
        container.send({"type": "say"})


def test_a_body_over_the_cap_is_a_bad_frame() -> None:
    container = ScriptedSandboxes({"agent": echo}).create(SPEC)
    container.start()
    container.receive(0.0, 0)
    container.send({"type": "say"}, b"xx")
    with pytest.raises(InfraFailure, match="bad_frame"):
        container.receive(0.0, 1)


def test_everything_is_on_record_and_what_is_left_is_known() -> None:
    sandboxes = ScriptedSandboxes({"agent": echo})
    volume, container = sandboxes.create_volume(OWNER, Limits()), sandboxes.create(SPEC)
    container.start()
    assert sandboxes.left() == ["agent", volume]
    assert container.kill("limit").killed_by_us == "limit"
    for _ in range(2):
        container.remove()
        sandboxes.remove_volume(volume)
    assert sandboxes.left() == []
    assert sandboxes.record == [
        "create volume",
        "create agent",
        "start agent",
        "kill agent: limit",
        "remove agent",
        "remove volume",
    ]


def test_an_operation_that_fails_did_not_happen() -> None:
    def fail(operation: str) -> None:
        if operation == "create volume":
            raise InfraFailure("volume")

    sandboxes = ScriptedSandboxes({"agent": echo}, fail)
    with pytest.raises(InfraFailure):
        sandboxes.create_volume(OWNER, Limits())
    assert sandboxes.record == [] and sandboxes.left() == []


def test_a_role_without_a_program_is_no_container() -> None:
    with pytest.raises(InfraFailure, match="script_exhausted"):
        ScriptedSandboxes({}).create(SPEC)
