"""The listener: one unix socket a cell, HTTP/1.1 read with limits, answers written with deadlines.

Rules:
1. Identity is the listener; who connected is recorded from the kernel, never from what the client says. Another uid
   than the cell's is refused.
2. Head, body and the reading of an answer have deadlines; a body, and all bodies of a cell in memory at once, have a
   cap; so has the number of connections
   (`ListenLimits`).
3. Bodies are not decompressed. What is no HTTP gets 400 and a row.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

from cells.errors import EnvironmentFault
from cells.recording.wire import Peer
from launchers.gateway.answer import ClientGone
from launchers.gateway.arrival import Incoming
from launchers.gateway.contract import ListenLimits
from launchers.gateway.providers.upstream import REQUEST_HEADERS
from launchers.gateway.refusals import Refusal
from launchers.gateway.serving import Serving

MAX_LINE, MAX_FIELD, MAX_HEADERS = 16_384, 65_536, 128
SOCKET = "model.sock"
_PATH_LIMIT = 107
_RECORDED = (*REQUEST_HEADERS, "content-length", "transfer-encoding", "content-encoding", "expect")


class GuardedConnection(web.RequestHandler):
    """A connection whose request heads have a deadline, and whose malformed requests are recorded."""

    def __init__(self, server: GuardedServer, **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._guard = server
        self._head_deadline: asyncio.TimerHandle | None = None
        self._serving_request = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._guard.connections) > self._guard.limits.connections:
            self.force_close()

    def data_received(self, data: bytes) -> None:
        if data and self._head_deadline is None and not self._serving_request:
            self._head_deadline = asyncio.get_running_loop().call_later(self._guard.limits.head_s, self._too_slow)
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.head_is_read()
        super().connection_lost(exc)

    def head_is_read(self) -> None:
        """The deadline of the head is met; the body has its own."""
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def serving(self, active: bool) -> None:
        self._serving_request = active

    def _too_slow(self) -> None:
        self._head_deadline = None
        transport = self.transport
        if transport is None or self._serving_request:
            return
        refusal = Refusal(
            408, "slow_request", f"the request's head did not arrive within {self._guard.limits.head_s:g} s"
        )
        self._guard.record_unreadable(refusal, peer_of(transport))
        transport.write(_raw_refusal(refusal))
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is no HTTP: a protocol error and a row instead of a page."""
        self.head_is_read()
        refusal = Refusal(400, "malformed_http", f"not a request that can be read ({type(exc).__name__})")
        if request.transport is not None and status < 500:
            self._guard.record_unreadable(refusal, peer_of(request.transport))
        response = web.Response(status=400, body=refusal.body(None), content_type="application/json")
        response.force_close()
        return response


@dataclass
class _Held:
    """Bytes of a request's body that are in memory until it is answered."""

    size: int = 0


class GuardedServer(web.Server):
    """Makes guarded connections for one session."""

    def __init__(self, serving: Serving, peer_uid: int | None, limits: ListenLimits) -> None:
        super().__init__(self._handle, request_factory=self._request, handler_cancellation=True)
        self._serving, self._peer_uid, self.limits = serving, peer_uid, limits
        self._held = 0

    def __call__(self) -> web.RequestHandler:
        return GuardedConnection(
            self,
            keepalive_timeout=self.limits.idle_s,
            tcp_keepalive=False,
            access_log=None,
            max_line_size=MAX_LINE,
            max_field_size=MAX_FIELD,
            max_headers=MAX_HEADERS,
            lingering_time=1.0,
            auto_decompress=False,
        )

    def record_unreadable(self, refusal: Refusal, peer: Peer) -> None:
        """Record something that never became a request; its answer is sent by the caller."""
        incoming = Incoming("", "", "", {}, None, peer, refusal)
        self._serving.start(incoming, _Nobody())

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        if isinstance(protocol, GuardedConnection):
            protocol.head_is_read()
            protocol.serving(True)  # what arrives from now on is a body, or a request that waits its turn
        return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, GuardedConnection)
        held = _Held()
        try:
            out = _Client(request, self.limits.write_s)
            await self._serving.serve(await self._incoming(request, held), out)
            return out.response()
        finally:
            self._held -= held.size
            connection.serving(False)

    async def _incoming(self, request: web.BaseRequest, held: _Held) -> Incoming:
        peer = peer_of(request.transport)
        headers = {name: request.headers[name] for name in _RECORDED if name in request.headers}
        fault, body = self._refused(request, peer), None
        if fault is None:
            fault, body = await self._body(request, held)
        path, _, query = request.path_qs.partition("?")
        return Incoming(request.method, path, query, headers, body, peer, fault)

    def _refused(self, request: web.BaseRequest, peer: Peer) -> Refusal | None:
        if self._peer_uid is not None and peer.uid not in (self._peer_uid, os.geteuid()):
            return Refusal(403, "wrong_peer", "this socket belongs to another user")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            return Refusal(415, "encoded_request", "requests are taken uncompressed only")
        if (request.content_length or 0) > self.limits.max_body:
            return self._too_large()
        return None

    def _too_large(self) -> Refusal:
        return Refusal(
            413, "request_too_large", f"the request has more than {self.limits.max_body} bytes, or all at once too many"
        )

    async def _body(self, request: web.BaseRequest, held: _Held) -> tuple[Refusal | None, bytes | None]:
        if "expect" in request.headers and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_s):
                async for chunk in request.content.iter_any():
                    body += chunk
                    held.size += len(chunk)
                    self._held += len(chunk)
                    if len(body) > self.limits.max_body or self._held > 2 * self.limits.max_body:
                        return self._too_large(), None
        except TimeoutError:
            return Refusal(
                408, "slow_request", f"the request's body did not arrive within {self.limits.body_s:g} s"
            ), None
        except (web.RequestPayloadError, ValueError) as error:
            return Refusal(400, "broken_body", f"the request's body cannot be read ({type(error).__name__})"), None
        return None, bytes(body)


class _Client:
    """The cell's side of one exchange, over aiohttp."""

    def __init__(self, request: web.BaseRequest, write_s: float) -> None:
        self._request, self._write_s = request, write_s
        self._response: web.StreamResponse | None = None
        self._broken = False

    @property
    def begun(self) -> bool:
        return self._response is not None

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        response = web.Response(status=status, reason=_reason(status), headers=headers, body=body)
        if status in (408, 413):
            response.force_close()
        self._response = response
        await self._within(response.prepare(self._request), response.write_eof())

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._response = web.StreamResponse(status=status, reason=_reason(status), headers=headers)
        await self._within(self._response.prepare(self._request))

    async def part(self, content: bytes) -> None:
        assert self._response is not None
        await self._within(self._response.write(content))

    async def end(self) -> None:
        assert self._response is not None
        await self._within(self._response.write_eof())

    def break_off(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()
        self._broken = True

    def response(self) -> web.StreamResponse:
        """What aiohttp is given back: it finds everything written. ConnectionError when there is nobody to write to."""
        if self._response is None or self._broken:
            raise ConnectionResetError("the answer was broken off")
        return self._response

    async def _within(self, *steps: Any) -> None:
        try:
            async with asyncio.timeout(self._write_s):
                for step in steps:
                    await step
        except (ConnectionError, TimeoutError) as error:
            self.break_off()
            raise ClientGone(type(error).__name__) from error


class _Nobody:
    """The other side of what never became a request."""

    begun = False

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Nothing: the connection answers."""

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        raise ClientGone("no request")

    async def part(self, content: bytes) -> None:
        raise ClientGone("no request")

    async def end(self) -> None:
        raise ClientGone("no request")

    def break_off(self) -> None:
        """Nothing."""


def peer_of(transport: asyncio.BaseTransport | None) -> Peer:
    """Who is at the other end of a unix socket, as the kernel says."""
    found = None if transport is None else transport.get_extra_info("socket")
    if found is None:
        return Peer(uid=None, pid=None)
    try:
        raw = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return Peer(uid=None, pid=None)
    pid, uid, _ = struct.unpack("3i", raw)
    return Peer(uid=uid, pid=pid)


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _raw_refusal(refusal: Refusal) -> bytes:
    body = refusal.body(None)
    head = f"HTTP/1.1 {refusal.status} {_reason(refusal.status)}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body


@dataclass
class Listener:
    """An open socket of a cell."""

    directory: Path
    _server: asyncio.AbstractServer
    _handlers: GuardedServer

    async def close(self) -> None:
        """Take no more connections, drop those there are, and remove the socket."""
        self._server.close()
        for connection in self._handlers.connections:
            connection.force_close()
        await self._handlers.shutdown(timeout=0.05)
        (self.directory / SOCKET).unlink(missing_ok=True)
        self.directory.rmdir()


async def listen(serving: Serving, directory: Path, peer_uid: int | None, limits: ListenLimits) -> Listener:
    """Open the socket of a cell in a directory of its own, passable but not readable for others."""
    path = directory / SOCKET
    if len(os.fsencode(path)) > _PATH_LIMIT:
        raise EnvironmentFault(f"{path}: a socket's path may have {_PATH_LIMIT} bytes; use a shorter run directory")
    directory.mkdir(mode=0o711)
    directory.chmod(0o711)
    handlers = GuardedServer(serving, peer_uid, limits)
    server = await asyncio.get_running_loop().create_unix_server(handlers, path, backlog=128)
    if peer_uid is not None and os.geteuid() == 0:
        os.chown(path, peer_uid, -1)
        path.chmod(0o600)
    else:
        path.chmod(0o666)
    return Listener(directory, server, handlers)
