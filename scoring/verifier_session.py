"""Talk with a verifier container: open it, hand it the sealed files, run on the base and on base + patch.

Rules:
1. The container is made from the pristine image of the task; nothing of the agent's container enters but the patch.
2. Sealed files go over stdin into the memory of its first process. No host directory but our programs is mounted.
3. Whoever fails before the patch is prepared is the verifier (VerifierInvalid). After it a death by memory, or silence
   beyond the deadline in a healthy container, belongs to the candidate (`CandidateDied`); a lost engine never does.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

import cells.incell.trusted as trusted
from cells.design.cell import CellLimits
from cells.errors import InfraFailure, Interrupted, VerifierInvalid
from cells.incell.trusted.names import encode_name
from cells.sandbox import (
    VERIFIER_UID,
    Channel,
    ChannelClosed,
    ChannelTimeout,
    Container,
    ContainerSpec,
    Frame,
    Limits,
    Mount,
    Owner,
    SandboxFactory,
)
from scoring.collected import Change
from scoring.judge import RunFacts
from scoring.pack import PackFile

LOG_BYTES = 1 << 20
REPORT_BYTES = 32 << 20
_SPARE_DISK_MB = 64  # for the patch and the sealed files, beside a tree that may fill the disk
_MARGIN_S = 120.0
_POLL_S = 0.25
_BODY = max(LOG_BYTES + (64 << 10), REPORT_BYTES)


class CandidateDied(Exception):
    """The verifier ended, or fell silent, while the candidate's code ran; nothing but that code is to blame."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Prepared(_Answer):
    problem: str | None
    restored: list[str]


class _Ran(_Answer):
    exit: int | None
    timed_out: bool
    duration_s: float
    report_state: str
    survivors: int


@dataclass(frozen=True)
class Prepared:
    """Why the patch does not apply (None when it does), and which machinery was put back from the base."""

    problem: str | None
    restored: tuple[str, ...]


@dataclass(frozen=True)
class VerifierSetting:
    """A verifier container: image and work directory, resources, labels, the environment of the tests."""

    owner: Owner
    image_id: str
    workdir: str
    runner: str
    limits: CellLimits
    environment: Mapping[str, str]


@contextmanager
def open_verifier(
    setting: VerifierSetting, sandboxes: SandboxFactory, stop: threading.Event, clock: Callable[[], float]
) -> Iterator[VerifierSession]:
    """A running verifier, removed at the end whatever happens. VerifierInvalid when the engine does not give one."""
    volume = None
    container: Container | None = None
    try:
        if setting.limits.disk_backing == "file":
            volume = sandboxes.create_volume(setting.owner, _resources(setting.limits))
        container = sandboxes.create(_container(setting, volume))
        channel = container.attach()
        container.start()
        session = VerifierSession(container, channel, stop, clock)
        session.open(setting)
        yield session
    except InfraFailure as failure:
        raise VerifierInvalid(failure.reason, failure.detail) from failure
    finally:
        # What cannot be removed now has our labels: the reaper takes it. It must not hide why we are here.
        with suppress(InfraFailure):
            if container is not None:
                container.remove()
        with suppress(InfraFailure):
            if volume is not None:
                sandboxes.remove_volume(volume)


def _resources(limits: CellLimits) -> Limits:
    disk = limits.disk_mb + _SPARE_DISK_MB
    return Limits(limits.memory_mb, limits.cpus, disk, limits.pids, max(64, limits.disk_mb), limits.disk_backing)


def _container(setting: VerifierSetting, volume: str | None) -> ContainerSpec:
    resources = _resources(setting.limits)
    mounts = [Mount(str(Path(trusted.__file__).parent), trusted.MOUNT, kind="directory")]
    tmpfs: dict[str, str] = {}
    if volume is not None:
        mounts.append(Mount(volume, setting.workdir, read_only=False))
    else:
        tmpfs[setting.workdir] = f"rw,exec,nosuid,nodev,size={resources.disk_mb}m,mode=0755"
    return ContainerSpec(
        owner=setting.owner,
        image=setting.image_id,
        command=trusted.VERIFIER_COMMAND,
        limits=resources,
        user="0:0",
        workdir="/",
        mounts=tuple(mounts),
        tmpfs=tmpfs,
        capabilities=trusted.VERIFIER_CAPABILITIES,
    )


class VerifierSession:
    """The requests of one verification, in their order."""

    def __init__(
        self, container: Container, channel: Channel, stop: threading.Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._container, self._channel, self._stop, self._clock = container, channel, stop, clock
        self._candidate = False

    def open(self, setting: VerifierSetting) -> None:
        """Fix what all runs share."""
        self._send(
            {
                "type": "open",
                "workdir": setting.workdir,
                "user": VERIFIER_UID,
                "runner": setting.runner,
                "environment": dict(setting.environment),
                "log_bytes": LOG_BYTES,
                "report_bytes": REPORT_BYTES,
            }
        )
        self._expect("opened", _MARGIN_S)

    def hand_over(self, area: str, files: Sequence[PackFile]) -> None:
        """Sealed files for an area: `tree`, `canary`, `original`, `beside`."""
        for file in files:
            header = {
                "type": "file",
                "area": area,
                "path": encode_name(file.path),
                "executable": file.executable,
                "target": None if file.target is None else encode_name(file.target),
            }
            self._send(header, file.content)

    def run_on_base(self, request: Mapping[str, Any]) -> RunFacts:
        """Run on the base alone; `request` holds command, timeout_s, select, remove, canary."""
        self._send({"type": "run", "kind": "self_check", **request})
        return self._result(request["timeout_s"])

    def run_on_patch(
        self, request: Mapping[str, Any], patch: bytes, changes: Sequence[Change] = ()
    ) -> tuple[Prepared, RunFacts | None]:
        """Apply the patch, hold it against what it must change, and run; no facts when it does not apply.

        `CandidateDied`.
        """
        rows = [{"path": change.path, "new_mode": change.new_mode, "new": change.new} for change in changes]
        self._send({"type": "changes"}, json.dumps(rows).encode("ascii"))
        self._send({"type": "run", "kind": "candidate", **request}, patch)
        answer = _parsed(_Prepared, self._expect("prepared", _MARGIN_S))
        prepared = Prepared(answer.problem, tuple(answer.restored))
        if prepared.problem is not None:
            return prepared, None
        self._candidate = True
        return prepared, self._result(request["timeout_s"])

    def _result(self, timeout_s: float) -> RunFacts:
        ran = self._expect("ran", timeout_s + _MARGIN_S)
        log = self._expect("log", _MARGIN_S)
        facts = _parsed(_Ran, ran)
        return RunFacts(**facts.model_dump(), report=ran.body, log=log.body)

    def _send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        try:
            self._channel.send(header, body)
        except (ChannelClosed, ChannelTimeout) as error:
            raise self._ended(f"it does not take {header['type']!r}: {error}") from error

    def _expect(self, kind: str, patience_s: float) -> Frame:
        frame = self._receive(self._clock() + patience_s)
        if frame.type == "error":
            raise VerifierInvalid("verifier_failed", str(frame.header.get("detail", ""))[:2000])
        if frame.type != kind:
            raise VerifierInvalid("verifier_failed", f"asked for {kind!r}, found {frame.type!r}")
        return frame

    def _receive(self, deadline: float) -> Frame:
        """The next frame, looking at the stop event in between."""
        while True:
            if self._stop.is_set():
                raise Interrupted("stopped while a verifier was running; running the same command again goes on")
            slice_end = min(deadline, self._clock() + _POLL_S)
            try:
                return self._channel.receive(slice_end, _BODY)
            except ChannelClosed as error:
                raise self._ended(f"it ended: {error}") from error
            except ChannelTimeout as error:
                if self._clock() >= deadline:
                    raise self._silent() from error

    def _ended(self, detail: str) -> Exception:
        """Who is to blame for a container that is gone."""
        exit_ = self._container.wait(self._clock() + _MARGIN_S)
        if exit_ is None:
            return VerifierInvalid("verifier_lost", f"{detail}; the container still runs without a voice")
        if self._candidate and exit_.oom_killed and not exit_.engine_changed:
            return CandidateDied("the kernel ended the verifier for memory while the candidate's code ran")
        stderr = exit_.stderr[-500:].decode("utf-8", "replace")
        return VerifierInvalid("verifier_lost", f"{detail}; exit {exit_.code}; {stderr}".rstrip("; "))

    def _silent(self) -> Exception:
        exit_ = self._container.kill("the verifier did not answer in time")
        if self._candidate and exit_.killed_by_us is not None and not exit_.engine_changed:
            return CandidateDied("the verifier could not answer in time while the candidate's code ran")
        return VerifierInvalid("verifier_silent", f"no answer in time; exit {exit_.code}")


def _parsed(model: type[Any], frame: Frame) -> Any:
    try:
        return model.model_validate({key: value for key, value in frame.header.items() if key not in ("type", "size")})
    except ValidationError as error:
        raise VerifierInvalid("verifier_failed", f"its answer: {error.error_count()} fields are wrong") from error
