"""Control: what the host asks the gateway process over a private socket, one JSON line a question and one an answer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cells.errors import AssayError, EnvironmentFault, InfraFailure, UsageError
from launchers.gateway.contract import CELL, ENDPOINTS, STATUS, TOTALS
from launchers.gateway.sessions import Sessions

CONTROL = "control.sock"
_MAX_LINE = 4 << 20
_log = logging.getLogger("assay.gateway")

Operation = Callable[[dict[str, Any]], Awaitable[Any]]


class Control:
    """Answers questions about sessions."""

    def __init__(self, sessions: Sessions, stop: asyncio.Event) -> None:
        self._sessions, self._stop = sessions, stop
        self._operations: dict[str, Operation] = {
            "open": self._open,
            "status": self._status,
            "segment": self._segment,
            "close": self._close,
            "endpoints": self._endpoints,
            "probe": self._probe,
            "stop": self._end,
        }

    async def listen(self, run_dir: Path) -> asyncio.AbstractServer:
        """Open the control socket; the run directory is ours alone."""
        path = run_dir / CONTROL
        server = await asyncio.start_unix_server(self._serve, path, limit=_MAX_LINE)
        path.chmod(0o600)
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:
            _log.warning("control connection ended: %s", type(error).__name__)
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            question = json.loads(line)
            return {"ok": await self._operations[question["op"]](question)}
        except AssayError as error:
            return {"error": str(error), "kind": _kind(error)}
        except (KeyError, ValueError, OSError, ValidationError) as error:
            return {"error": f"{type(error).__name__}: {error}", "kind": "InfraFailure"}

    async def _open(self, question: dict[str, Any]) -> Any:
        return str(await self._sessions.open(CELL.validate_python(question["cell"])))

    async def _status(self, question: dict[str, Any]) -> Any:
        return STATUS.dump_python(self._sessions.get(question["key"]).status(), mode="json")

    async def _segment(self, question: dict[str, Any]) -> Any:
        return await self._sessions.segment(question["key"], question["provenance"])

    async def _close(self, question: dict[str, Any]) -> Any:
        return TOTALS.dump_python(await self._sessions.close(question["key"], question["finish_reason"]), mode="json")

    async def _endpoints(self, question: dict[str, Any]) -> Any:
        return ENDPOINTS.dump_python(self._sessions.endpoints.statuses(), mode="json")

    async def _probe(self, question: dict[str, Any]) -> Any:
        return dict(await self._sessions.get(question["key"]).provider.probe())

    async def _end(self, question: dict[str, Any]) -> Any:
        self._stop.set()
        return True


def _kind(error: AssayError) -> str:
    """The class that the host raises again: the caller's bug, the machine's lack, or a fault of ours."""
    for known in (UsageError, EnvironmentFault):
        if isinstance(error, known):
            return known.__name__
    return InfraFailure.__name__
