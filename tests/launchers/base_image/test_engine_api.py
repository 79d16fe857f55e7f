"""The small engine client: its address, its refusals, and what it makes of an engine's answers."""

from __future__ import annotations

import io
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from cells.errors import EnvironmentFault
from launchers.base_image.engine_api import DEFAULT_HOST, EngineApi


@contextmanager
def engine_answering(directory: Path, status: int, body: bytes) -> Iterator[EngineApi]:
    """A server on a unix socket that gives one answer to every call."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    socket = directory / "s"
    with socketserver.ThreadingUnixStreamServer(str(socket), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield EngineApi(f"unix://{socket}", timeout_s=5.0)
        finally:
            server.shutdown()
            thread.join()


def test_the_address_is_docker_host_else_the_default_socket() -> None:
    assert EngineApi.from_environment({}).host == DEFAULT_HOST
    assert EngineApi.from_environment({"DOCKER_HOST": ""}).host == DEFAULT_HOST
    assert EngineApi.from_environment({"DOCKER_HOST": "tcp://127.0.0.1:1"}).host == "tcp://127.0.0.1:1"


def test_an_address_of_another_kind_is_refused_with_those_that_are_allowed() -> None:
    with pytest.raises(EnvironmentFault, match=r"ssh://host.*allowed here: unix://.*tcp://"):
        EngineApi("ssh://host").info()


def test_no_engine_at_the_address_is_a_fault_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="nowhere"):
        EngineApi(f"unix://{tmp_path}/nowhere").info()


def test_an_image_that_is_not_there_is_none_and_not_an_error(tmp_path: Path) -> None:
    with engine_answering(tmp_path, 404, b'{"message": "No such image"}') as engine:
        assert engine.image("assay/base:000000000000") is None


def test_an_error_of_the_engine_is_told_in_its_own_words(tmp_path: Path) -> None:
    full = engine_answering(tmp_path, 500, b'{"message": "disk is full"}')
    with full as engine, pytest.raises(EnvironmentFault, match=r"500.*disk is full"):
        engine.image("assay/base:000000000000")


def test_a_load_that_answers_200_with_an_error_inside_has_failed(tmp_path: Path) -> None:
    """The engine streams its progress: the status line is long gone when the unpacking fails."""
    body = b'{"stream": "Loading layer"}\r\n{"errorDetail": {}, "error": "no space left"}\r\n'
    with engine_answering(tmp_path, 200, body) as engine, pytest.raises(EnvironmentFault, match="no space left"):
        engine.load(io.BytesIO(b"archive"), 7)
