"""The launcher's side of the talk with the first process of a cell (`cells.incell.agent.init`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from cells.errors import InfraFailure
from cells.sandbox import Channel, Frame
from cells.tasks.image import BASE_TREE
from launchers.harness_log import OUTPUT_CAP
from launchers.harnesses.protocol import HarnessExit

MAX_BODY = 1 << 20


@dataclass(frozen=True)
class Orders:
    """What the first process is to do."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    workdir: str
    stdin: bytes
    files: Mapping[str, bytes]
    """Name below /tmp/assay -> content."""
    forward: tuple[tuple[int, str], ...] = ()
    """Loopback port -> unix socket."""


class _Report(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StreamReport(_Report):
    """What a stream of the harness carried, and how much of it nobody keeps."""

    bytes: int
    dropped: int


class EndReport(_Report):
    """The last word of the first process. `broken` says that the cell could not go on, whatever the harness did."""

    exit_code: int | None
    signal: int | None
    broken: str | None
    usage: dict[str, float]
    left_processes: int
    output: dict[str, StreamReport]
    counters: dict[str, int | float | None]
    disk: dict[str, float | int | None]
    wall_s: float

    def harness_exit(self) -> HarnessExit:
        """How the harness ended."""
        return HarnessExit(self.exit_code, self.signal)


def send_orders(channel: Channel, orders: Orders) -> None:
    """Send everything that the first process needs; it begins when it has read the last frame."""
    for name, content in orders.files.items():
        channel.send({"type": "file", "name": name}, content)
    channel.send({"type": "stdin"}, orders.stdin)
    run = {
        "base": BASE_TREE,
        "workdir": orders.workdir,
        "command": list(orders.command),
        "environment": dict(orders.environment),
        "forward": [{"port": port, "socket": socket} for port, socket in orders.forward],
        "output_bytes": OUTPUT_CAP,
    }
    channel.send({"type": "run"}, json.dumps(run).encode("ascii"))


def read_end(frame: Frame) -> EndReport:
    """The report in an `ended` frame. InfraFailure("bad_frame"): only our own program can have written it."""
    try:
        return EndReport.model_validate_json(frame.body)
    except ValidationError as error:
        raise InfraFailure("bad_frame", f"the first process's report is not one: {error.errors()[0]}") from error


def refuse_failure(frame: Frame) -> None:
    """InfraFailure("launch") when the frame says that the harness could not be started."""
    if frame.type == "failed":
        header: dict[str, Any] = frame.header
        raise InfraFailure(str(header.get("reason", "launch"))[:60], str(header.get("detail", ""))[:2000])
