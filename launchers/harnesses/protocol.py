"""What a harness is to a launcher: how it is configured, started, read when it ends, and where its own record lies.

Rules:
1. A harness knows its settings, its model's name, the work directory and the prompt; no arm, study or other cell.
2. Its settings are a typed model, checked when the study is planned; unknown keys are refused.
3. It ends `completed` or `harness_error`; every other word of `Ended` is said by those who own the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from cells.outcome import Ended

OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC_MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"
"""Protocols that a harness may speak to its model."""


class HarnessSettings(BaseModel):
    """Base of the typed settings: unknown keys and sloppy types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True)
class Launch:
    """What a harness may know when it starts. Paths are paths in the container."""

    settings: Mapping[str, Any]
    """As `check_settings` returned them."""
    prompt: bytes
    workdir: str
    model: str | None
    """The served name of the model, None in a cell without one."""
    input_limit: int | None
    base_url: str | None
    """Where the model answers over TCP (no path), None without a forwarder or a model."""
    socket: str | None
    """Where the model answers over a unix socket, None without a model."""
    images: tuple[str, ...] = ()
    gold_patch: bytes | None = None
    """For the oracle control only."""


@dataclass(frozen=True)
class Gather:
    """A pattern of files that are kept as the harness's own record: segments as in a shell, `**` for any depth."""

    root: Literal["records", "workdir"]
    pattern: str


@dataclass(frozen=True)
class HarnessExit:
    """How the harness's first process ended: a code, or the signal that killed it."""

    exit_code: int | None
    signal: int | None
    stderr_end: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Claims:
    """What a harness's own record says that it did; unknown is None. Compared with the wire, never believed over it."""

    turns: int | None = None
    tool_calls: int | None = None
    """Calls that its model asked for."""
    input_tokens: int | None = None
    output_tokens: int | None = None


ReadRecord = Callable[[str], bytes | None]
"""A gathered file by its name, None when it was not there."""


class Harness(Protocol):
    """A way to run a program as the agent of a cell."""

    name: ClassVar[str]
    settings_model: ClassVar[type[HarnessSettings]]
    needs_model: ClassVar[bool]
    """A cell of it must have a model; without, a model is allowed but not needed."""
    speaks: ClassVar[frozenset[str]]
    """Protocols that it may use."""
    needs_forwarder: ClassVar[bool]
    """It reaches its model over TCP."""
    takes_images: ClassVar[bool]
    control: ClassVar[str | None]
    """Name of the control that it is ("oracle", "nop"), None for a harness of an arm."""
    keeps_records: ClassVar[bool]
    """It keeps a record of its own on the records volume, which is also its HOME."""
    layer: ClassVar[str | None]
    """Name of the layer (launchers/layers) with its software, None for one that needs none."""

    def command(self, launch: Launch) -> tuple[str, ...]:
        """argv of its first process."""

    def environment(self, launch: Launch) -> Mapping[str, str]:
        """What it needs beyond the environment that every harness gets."""

    def stdin(self, launch: Launch) -> bytes:
        """What it reads on stdin."""

    def gathers(self, settings: Mapping[str, Any]) -> tuple[Gather, ...]:
        """Its own record."""

    def claims(self, read: ReadRecord) -> Claims | None:
        """What its own record says, None without one that can be read."""

    def ended(self, exit: HarnessExit) -> tuple[Ended, str]:
        """`completed` or `harness_error`, and a word on why."""


class PlainHarness:
    """The usual answers: prompt on stdin, nothing kept, exit 0 is completed."""

    settings_model: ClassVar[type[HarnessSettings]] = HarnessSettings
    needs_model: ClassVar[bool] = False
    speaks: ClassVar[frozenset[str]] = frozenset()
    needs_forwarder: ClassVar[bool] = False
    takes_images: ClassVar[bool] = False
    control: ClassVar[str | None] = None
    keeps_records: ClassVar[bool] = False
    layer: ClassVar[str | None] = None

    def environment(self, launch: Launch) -> Mapping[str, str]:
        """Nothing further."""
        return {}

    def stdin(self, launch: Launch) -> bytes:
        """The prompt."""
        return launch.prompt

    def gathers(self, settings: Mapping[str, Any]) -> tuple[Gather, ...]:
        """No record of its own."""
        return ()

    def claims(self, read: ReadRecord) -> Claims | None:
        """Nothing."""
        return None

    def ended(self, exit: HarnessExit) -> tuple[Ended, str]:
        """Exit 0 is completed, anything else a harness error (20-interface, "Study file")."""
        if exit.exit_code == 0:
            return Ended.COMPLETED, "exit 0"
        return Ended.HARNESS_ERROR, f"signal {exit.signal}" if exit.signal else f"exit {exit.exit_code}"
