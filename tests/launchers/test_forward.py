"""The forwarder: TCP on loopback to a unix socket, byte for byte, each direction for itself."""

from __future__ import annotations

import hashlib
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cells.incell.agent import forward

PROGRAM = Path(forward.__file__)


class Digesting(socketserver.StreamRequestHandler):
    """Reads until the client ends its direction, then answers with the digest of it."""

    def handle(self) -> None:
        state = hashlib.sha256()
        while content := self.rfile.read(65536):
            state.update(content)
        self.wfile.write(state.hexdigest().encode())


class Server(socketserver.ThreadingUnixStreamServer):
    request_queue_size = 256
    daemon_threads = True


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """A unix socket whose server answers only after the client's half-close."""
    path = tmp_path / "model.sock"
    with Server(str(path), Digesting) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield path
        server.shutdown()


def start(target: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The program on a free port, listening already."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(PROGRAM), str(port), str(target)])
    for _ in range(10_000):
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return process, port
        except ConnectionRefusedError:
            assert process.poll() is None
    raise AssertionError("it never listened")


@pytest.fixture
def port(target: Path) -> Iterator[int]:
    process, port = start(target)
    yield port
    process.kill()
    process.wait()


def digest_through(port: int, content: bytes) -> str:
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(content)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()


def test_a_client_that_ends_its_request_early_still_gets_its_answer(port: int) -> None:
    assert digest_through(port, b"request") == hashlib.sha256(b"request").hexdigest()


def test_many_connections_at_once_do_not_mix(port: int) -> None:
    contents = [f"{number} ".encode() * 20_000 for number in range(60)]
    with ThreadPoolExecutor(30) as pool:
        found = list(pool.map(lambda content: digest_through(port, content), contents))
    assert found == [hashlib.sha256(content).hexdigest() for content in contents]


def test_where_nobody_listens_behind_it_the_client_sees_a_closed_connection(tmp_path: Path) -> None:
    process, port = start(tmp_path / "nobody.sock")
    try:
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            assert client.recv(10) == b""
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
