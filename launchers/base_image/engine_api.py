"""The few calls to a Docker engine that set-up needs before any package is installed: standard library only.

Rules:
1. The endpoint is `DOCKER_HOST` where set (unix:// or tcp://), else the default socket. No other is guessed.
2. An answer is read up to a cap; a call that stays silent longer than its time limit is a fault, not a wait for ever.
"""

from __future__ import annotations

import http.client
import json
import socket
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import IO, Any

from cells.errors import EnvironmentFault

DEFAULT_HOST = "unix:///var/run/docker.sock"
_ANSWER_CAP_BYTES = 16 * 1024 * 1024
_LOAD_TIMEOUT_S = 600.0  # the engine is silent while it unpacks


@dataclass(frozen=True)
class EngineApi:
    """An engine by its address; `timeout_s` is how long one call may stay silent, in seconds."""

    host: str
    timeout_s: float = 30.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> EngineApi:
        """The engine that `DOCKER_HOST` names, else the one on the default socket."""
        return cls(environment.get("DOCKER_HOST") or DEFAULT_HOST)

    def info(self) -> dict[str, Any]:
        """What the engine says of itself. Raises EnvironmentFault where none answers."""
        info: dict[str, Any] = json.loads(self._call("GET", "/info"))
        return info

    def image(self, reference: str) -> dict[str, Any] | None:
        """The image under this name or id as the engine describes it, None where the engine does not hold it."""
        answer = self._call("GET", f"/images/{urllib.parse.quote(reference, safe='/:@')}/json", missing_is_none=True)
        return None if answer is None else json.loads(answer)

    def load(self, archive: IO[bytes], size: int) -> None:
        """Hand an image archive (Docker image format 1.2) of `size` bytes to the engine."""
        headers = {"Content-Type": "application/x-tar", "Content-Length": str(size)}
        patient = replace(self, timeout_s=_LOAD_TIMEOUT_S)
        answer = patient._call("POST", "/images/load?quiet=1", body=archive, headers=headers)
        for line in answer.splitlines():
            if line.strip() and "error" in (row := json.loads(line)):
                raise EnvironmentFault(f"asked the engine at {self.host} to load an image; it answered: {row['error']}")

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        missing_is_none: bool = False,
    ) -> Any:
        connection = self._connection()
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            response = connection.getresponse()
            answer = response.read(_ANSWER_CAP_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise EnvironmentFault(f"asked the engine at {self.host} for {path}; no answer: {error}") from error
        finally:
            connection.close()
        if response.status == 404 and missing_is_none:
            return None
        if response.status >= 400:
            raise EnvironmentFault(
                f"asked the engine at {self.host} for {path}; it answered {response.status}: {answer[:500]!r}"
            )
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        scheme, _, address = self.host.partition("://")
        if scheme == "unix":
            return _UnixConnection(address, self.timeout_s)
        if scheme in ("tcp", "http"):
            return http.client.HTTPConnection(address, timeout=self.timeout_s)
        raise EnvironmentFault(f"DOCKER_HOST is {self.host!r}; allowed here: unix:///path/of/socket or tcp://host:port")


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("engine", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
