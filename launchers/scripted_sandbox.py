"""Deterministic containers without an engine: a program per role that answers frames, for the pure parts of both sides.

Rules:
1. Nothing runs by itself: a program speaks when it is started and when a frame is sent to it, at once and in order.
2. Every operation is on the record of the factory; a script may let any of them fail before it happens.
3. It pretends nothing about isolation: whatever needs a real boundary is tested on a real engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from cells.errors import InfraFailure
from cells.sandbox import ChannelClosed, ChannelTimeout, ContainerSpec, Exit, Frame, Limits, Owner

KILLED = 137


class Program(Protocol):
    """What runs in a scripted container. Saying an Exit ends it; its stdout ends with it."""

    def start(self, spec: ContainerSpec) -> Iterable[Frame | Exit]:
        """What it says before anything is asked."""

    def answer(self, frame: Frame) -> Iterable[Frame | Exit]:
        """What it says to a frame."""


@dataclass
class Replies(Program):
    """The plainest program: opening words, then one list of answers for each type of frame."""

    opening: tuple[Frame | Exit, ...] = ()
    answers: Mapping[str, Callable[[Frame], Iterable[Frame | Exit]]] = field(default_factory=dict)

    def start(self, spec: ContainerSpec) -> Iterable[Frame | Exit]:
        """The opening words."""
        return self.opening

    def answer(self, frame: Frame) -> Iterable[Frame | Exit]:
        """The answers for this type; nothing for a type that is not known."""
        reply = self.answers.get(frame.type)
        return () if reply is None else reply(frame)


class ScriptedContainer:
    """A container whose program is a Python object; it is its own channel."""

    def __init__(
        self, container_id: str, spec: ContainerSpec, program: Program, happens: Callable[[str], None]
    ) -> None:
        self.id, self.spec = container_id, spec
        self.removed = False
        self._program, self._happens = program, happens
        self._said: deque[Frame] = deque()
        self._end: Exit | None = None
        self._closed = False

    def attach(self) -> ScriptedContainer:
        """The channel."""
        return self

    def start(self) -> None:
        """Let the program speak."""
        self._happens(f"start {self.spec.owner.role}")
        self._take(self._program.start(self.spec))

    def send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        """Hand a frame to the program and take its answers."""
        if self._closed or self._end is not None:
            raise ChannelClosed("the program's stdout ended")
        self._take(self._program.answer(Frame({**header, "size": len(body)}, body)))

    def receive(self, deadline: float, max_body: int) -> Frame:
        """The next frame; ChannelTimeout at once when the program has nothing more to say."""
        if self._said:
            frame = self._said.popleft()
            if len(frame.body) > max_body:
                raise InfraFailure("bad_frame", f"{frame.type}: body of {len(frame.body)} bytes, allowed {max_body}")
            return frame
        if self._closed or self._end is not None:
            raise ChannelClosed("the program's stdout ended")
        raise ChannelTimeout("the program has nothing more to say")

    def close(self) -> None:
        """Close the channel; safe twice."""
        self._closed = True

    def wait(self, deadline: float) -> Exit | None:
        """The end, if the program said one."""
        return self._end

    def kill(self, reason: str) -> Exit:
        """End the program, unless it ended by itself."""
        self._happens(f"kill {self.spec.owner.role}: {reason}")
        if self._end is None:
            self._end = Exit(KILLED, oom_killed=False, killed_by_us=reason, engine_changed=False)
        return self._end

    def remove(self) -> None:
        """Remove it; safe twice."""
        if self.removed:
            return
        self._happens(f"remove {self.spec.owner.role}")
        self.removed = True
        self._end = self._end or Exit(KILLED, oom_killed=False, killed_by_us="removed", engine_changed=False)

    def counters(self) -> dict[str, int | float | None]:
        """Nothing is known."""
        return {}

    def _take(self, said: Iterable[Frame | Exit]) -> None:
        for item in said:
            if isinstance(item, Exit):
                self._end = item
                return
            self._said.append(Frame({**item.header, "size": len(item.body)}, item.body))


class ScriptedSandboxes:
    """`cells.sandbox.SandboxFactory` over programs by role; `record` is what happened, in order.

    `fail` is told each operation before it happens and may raise in its place.
    """

    def __init__(
        self, programs: Mapping[str, Callable[[], Program]], fail: Callable[[str], None] = lambda operation: None
    ) -> None:
        self._programs, self._fail = programs, fail
        self._made = 0
        self.record: list[str] = []
        self.containers: list[ScriptedContainer] = []
        self.volumes: set[str] = set()

    def create(self, spec: ContainerSpec) -> ScriptedContainer:
        """A container running the program of the role. InfraFailure when the script has none."""
        program = self._programs.get(spec.owner.role)
        if program is None:
            raise InfraFailure("script_exhausted", f"no program for role {spec.owner.role!r}")
        self._happens(f"create {spec.owner.role}")
        self._made += 1
        container = ScriptedContainer(f"{self._made:064x}", spec, program(), self._happens)
        self.containers.append(container)
        return container

    def create_volume(self, owner: Owner, limits: Limits) -> str:
        """A name."""
        self._happens("create volume")
        self._made += 1
        name = f"scripted-{self._made}"
        self.volumes.add(name)
        return name

    def remove_volume(self, name: str) -> None:
        """Forget the name; safe twice."""
        if name in self.volumes:
            self._happens("remove volume")
            self.volumes.discard(name)

    def engine_identity(self) -> dict[str, Any]:
        """An engine that is none."""
        return {"name": "scripted", "version": None, "kernel": None, "uid_offset": 0, "process": None}

    def left(self) -> list[str]:
        """Containers (by role) and volumes that nobody removed."""
        return [one.spec.owner.role for one in self.containers if not one.removed] + sorted(self.volumes)

    def _happens(self, operation: str) -> None:
        self._fail(operation)
        self.record.append(operation)
