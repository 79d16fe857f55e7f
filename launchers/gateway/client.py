"""The host's side of the gateway process: start it, open cells in it, ask, close. Safe to use from several threads.

Rules:
1. The process is a child of ours; it ends when we end, however we end. Keys reach it by name through its environment,
   nothing else does.
2. A gateway that is gone is an `InfraFailure("gateway_lost")`: its cells are lost, never scored.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import launchers
from cells.errors import EnvironmentFault, InfraFailure, UsageError
from launchers.gateway.contract import (
    ENDPOINTS,
    STATUS,
    TOTALS,
    EndpointStatus,
    GatewayCell,
    SessionStatus,
    SessionTotals,
    cell_document,
)

_START_S, _ANSWER_S, _STOP_S = 60.0, 60.0, 20.0
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")


class GatewayProcess:
    """A running gateway. Use as a context manager."""

    def __init__(self, run_dir: Path, process: subprocess.Popen[bytes]) -> None:
        self.run_dir = run_dir
        self._process = process
        self._local = threading.local()

    @classmethod
    def start(
        cls,
        run_dir: Path,
        key_names: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        options: Iterable[str] = (),
    ) -> GatewayProcess:
        """Start a gateway whose sockets lie in `run_dir` (short, made here, 0700). EnvironmentFault when a key or the
        process fails."""
        source = os.environ if environment is None else environment
        names = sorted(set(key_names))
        missing = [name for name in names if not source.get(name)]
        if missing:
            raise EnvironmentFault(f"{', '.join(missing)}: a model names this key; set it in the environment")
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        run_dir.chmod(0o700)
        inherited = {name: source[name] for name in (*_PASSED_ON, *names) if name in source}
        inherited["PYTHONPATH"] = str(Path(launchers.__file__).resolve().parent.parent)
        command = [sys.executable, "-m", "launchers.gateway", "--run-dir", str(run_dir), *options]
        command += [word for name in names for word in ("--key", name)]
        with (run_dir / "gateway.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=inherited,
                start_new_session=True,
            )
        gateway = cls(run_dir, process)
        gateway._await_ready()
        return gateway

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    def open_cell(self, cell: GatewayCell) -> GatewaySession:
        """Open a cell. UsageError for a bad script or a missing key, InfraFailure when the gateway is gone."""
        return GatewaySession(self, cell.key, Path(self.ask("open", cell=cell_document(cell))))

    def endpoints(self) -> list[EndpointStatus]:
        """The provider endpoints in use; one that is down is a reason to pause the study."""
        return ENDPOINTS.validate_python(self.ask("endpoints"))

    def stop(self) -> None:
        """End the process; safe twice. Open cells are closed without a reason of their own."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def ask(self, operation: str, **fields: Any) -> Any:
        """One question over the control socket."""
        try:
            answer = self._connection().ask({"op": operation, **fields})
        except (OSError, ValueError) as error:
            self._local.connection = None
            raise InfraFailure(
                "gateway_lost", f"the gateway does not answer ({type(error).__name__}: {error})"
            ) from error
        if "ok" in answer:
            return answer["ok"]
        known: dict[str, type[Exception]] = {"UsageError": UsageError, "EnvironmentFault": EnvironmentFault}
        raise known.get(answer["kind"], _gateway_failure)(answer["error"])

    def _connection(self) -> _Connection:
        connection: _Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = _Connection.open(self.run_dir / "control.sock")
        return connection

    def _await_ready(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        timer = threading.Timer(_START_S, self._process.kill)
        timer.start()
        try:
            line = stdout.readline()
        finally:
            timer.cancel()
        if not line:
            self.stop()
            tail = (self.run_dir / "gateway.log").read_bytes()[-2000:].decode(errors="replace")
            raise EnvironmentFault(f"the gateway process did not start; its log ends with:\n{tail}")


def _gateway_failure(detail: str) -> InfraFailure:
    return InfraFailure("gateway_refused", detail)


@dataclass
class _Connection:
    stream: socket.socket
    reader: IO[bytes]

    @classmethod
    def open(cls, path: Path) -> _Connection:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(_ANSWER_S)
        stream.connect(str(path))
        return cls(stream, stream.makefile("rb"))

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        self.stream.sendall(json.dumps(question).encode() + b"\n")
        line = self.reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the connection ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass(frozen=True)
class GatewaySession:
    """An open cell. `socket_dir` holds `model.sock` and is mounted read-only into the container."""

    gateway: GatewayProcess
    key: str
    socket_dir: Path

    def status(self) -> SessionStatus:
        """What the cell did so far. InfraFailure when the gateway is gone."""
        return STATUS.validate_python(self.gateway.ask("status", key=self.key))

    def probe(self) -> dict[str, Any]:
        """What the provider's endpoint says of itself, for start/server_meta.json; no model call."""
        return dict(self.gateway.ask("probe", key=self.key))

    def begin_segment(self, provenance: Mapping[str, Any]) -> int:
        """Note a resume of the harness; the number of the new segment."""
        return int(self.gateway.ask("segment", key=self.key, provenance=dict(provenance)))

    def close(self, finish_reason: str | None = None) -> SessionTotals:
        """End the cell's record and remove its socket; the record is whole and durable when this returns."""
        return TOTALS.validate_python(self.gateway.ask("close", key=self.key, finish_reason=finish_reason))
