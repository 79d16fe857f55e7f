"""The detector child as a process: one a cell, started inside a mechanism, asked line by line, killed when it is late.

Rules:
1. Every answer has a deadline and a cap in bytes; a child that misses either is killed, and stays dead.
2. Its death is said (`ChildGone`), never hidden, and never an error of the cell.
3. Nothing but stdin and stdout reaches it; its stderr goes nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launchers.detectors.choice import environment
from launchers.detectors.mechanism import PROGRAM, Mechanism
from launchers.detectors.messages import LINE_CAP, ChildGone
from launchers.detectors.program import START, write_program

START_DEADLINE_S = 30.0
"""A container needs seconds to start on a busy machine; bubblewrap needs hundredths."""
DECISION_DEADLINE_S = 5.0


class DetectorChild:
    """A running child. Use `start`, then `ask`, then `close`."""

    def __init__(self, process: asyncio.subprocess.Process, mechanism: Mechanism, mark: str, home: Path) -> None:
        self._process, self._mechanism, self._mark, self._home = process, mechanism, mark, home
        self._gone: str | None = None

    @classmethod
    async def start(cls, mechanism: Mechanism, introduction: Mapping[str, Any]) -> DetectorChild:
        """Start it and hear that it is ready. `ChildGone` when it does not come up."""
        home = Path(tempfile.mkdtemp(prefix="assay-detector-"))
        home.chmod(0o755)  # another user has to read the program
        mark = secrets.token_hex(8)
        command = mechanism.command(["-c", START, PROGRAM], write_program(home), mark)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=environment(mechanism.name),
                limit=LINE_CAP,
                start_new_session=True,
            )
        except OSError as error:
            _remove(home)
            raise ChildGone(f"cannot be started: {error}") from error
        child = cls(process, mechanism, mark, home)
        try:
            await child.ask(introduction, START_DEADLINE_S)
        except ChildGone:
            await child.close()
            raise
        return child

    @property
    def pid(self) -> int:
        """The process that makes the wall; the child is below it."""
        return self._process.pid

    @property
    def gone(self) -> str | None:
        """Why it is dead, None while it lives."""
        return self._gone

    async def ask(self, message: Mapping[str, Any], deadline_s: float = DECISION_DEADLINE_S) -> bytes:
        """The line that answers a message. `ChildGone` when the child is dead, late, or says too much."""
        if self._gone is not None:
            raise ChildGone(self._gone)
        try:
            return await asyncio.wait_for(self._exchange(message), deadline_s)
        except TimeoutError:
            raise self._killed(f"no answer in {deadline_s:g} s") from None
        except (ValueError, asyncio.LimitOverrunError):
            raise self._killed(f"an answer of more than {LINE_CAP} bytes") from None
        except (ConnectionError, asyncio.IncompleteReadError):
            raise self._killed("it ended") from None

    async def close(self) -> None:
        """End it and remove what it left; safe twice."""
        self._killed(self._gone or "closed")
        assert self._process.stdout is not None
        while await self._process.stdout.read(LINE_CAP):  # a pipe that is full keeps its process from being waited for
            pass
        await self._process.wait()
        removal = self._mechanism.removal(self._mark)
        if removal is not None:
            quiet = asyncio.subprocess.DEVNULL
            remover = await asyncio.create_subprocess_exec(
                *removal, stdout=quiet, stderr=quiet, env=environment(self._mechanism.name)
            )
            await remover.wait()
        _remove(self._home)

    async def _exchange(self, message: Mapping[str, Any]) -> bytes:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await stdin.drain()
        return await stdout.readuntil(b"\n")

    def _killed(self, reason: str) -> ChildGone:
        self._gone = self._gone or reason
        if self._process.returncode is None:
            # The whole session: a change of user clears the signal that would kill the child with its parent.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return ChildGone(self._gone)


def _remove(home: Path) -> None:
    for path in home.glob("*"):
        path.unlink()
    if home.exists():
        home.rmdir()
