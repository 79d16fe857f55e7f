"""A real gateway process, real sockets, and an upstream on loopback that sends exactly the bytes it is told to."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cells.design.cell import CellLimits
from cells.recording.blobs import PACK, read_pack
from cells.recording.derive import Derived, derive
from cells.recording.wire import RequestRow, ResponseRow, WireRecord, read_wire
from launchers.gateway.client import GatewayProcess, GatewaySession
from launchers.gateway.contract import GatewayCell

NO_LIMITS = CellLimits(
    clock="active",
    wall_s=600,
    turns=None,
    requests=None,
    total_tokens=None,
    cost=None,
    memory_mb=64,
    cpus=1.0,
    disk_mb=8,
    disk_backing="memory",
    pids=16,
    verify_s=10,
)
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
KEY = "sk-planted-0123456789abcdef"


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


@dataclass(frozen=True)
class Got:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class OpenCell:
    """An open cell as a harness and as its launcher see it."""

    session: GatewaySession
    root: Path
    _connection: UnixConnection | None = None

    @property
    def socket_path(self) -> Path:
        return self.session.socket_dir / "model.sock"

    def ask(self, method: str, path: str, document: Any = None, headers: dict[str, str] | None = None) -> Got:
        body = document if isinstance(document, bytes) or document is None else json.dumps(document).encode()
        if self._connection is None:
            self._connection = UnixConnection(self.socket_path)
        try:
            self._connection.request(method, path, body, {"content-type": "application/json", **(headers or {})})
            answer = self._connection.getresponse()
            return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        except (OSError, http.client.HTTPException):
            self.hang_up()
            raise

    def chat(self, messages: list[dict[str, Any]], **fields: Any) -> Got:
        return self.ask("POST", "/v1/chat/completions", {"model": "m1", "messages": messages, "tools": TOOLS, **fields})

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def raw(self) -> socket.socket:
        found = socket.socket(socket.AF_UNIX)
        found.settimeout(30)
        found.connect(str(self.socket_path))
        return found

    def wire(self) -> WireRecord:
        return read_wire((self.root / "live/wire.jsonl").read_bytes())

    def requests(self) -> list[RequestRow]:
        return [row for row in self.wire().rows if isinstance(row, RequestRow)]

    def responses(self) -> list[ResponseRow]:
        return [row for row in self.wire().rows if isinstance(row, ResponseRow)]

    def body(self, row: RequestRow | ResponseRow) -> bytes:
        assert row.body is not None
        return read_pack((self.root / "live" / PACK).read_bytes()).body(row.body)

    def derived_again(self) -> Derived:
        pack = read_pack((self.root / "live" / PACK).read_bytes())
        return derive(self.wire().rows, pack.body)

    def trace(self, event: str | None = None) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in (self.root / "live/trace.jsonl").read_text().splitlines()]
        return [row for row in rows if event is None or row["event"] == event]

    def assert_derived_alike(self) -> None:
        """Call when the cell is closed: the derived files are what the wire gives."""
        again = self.derived_again()
        assert (self.root / "live/trace.jsonl").read_bytes() == again.trace
        assert (self.root / "live/transcript.log").read_bytes() == again.transcript
        assert (self.root / "live/usage.jsonl").read_bytes() == again.usage


@dataclass
class Out:
    """The upstream's side of one exchange."""

    head: bytes
    body: bytes
    connection: socket.socket

    def json(self, document: Any, status: str = "200 OK", headers: str = "") -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
        self.connection.sendall(head.encode() + body)

    def stream(self, parts: list[bytes], *, end: bool = True) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        self.connection.sendall(head)
        for part in parts:
            self.connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        if end:
            self.connection.sendall(b"0\r\n\r\n")
        else:
            self.hang_up()

    def raw(self, content: bytes) -> None:
        self.connection.sendall(content)

    def hang_up(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


@dataclass
class Upstream:
    """A server on loopback. `answer(out)` sends what it likes; heads and bodies are kept."""

    answer: Callable[[Out], None]
    seen: list[tuple[bytes, bytes]] = field(default_factory=list)
    _listening: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as reader:
            while connection.fileno() >= 0 and (head := _head(reader)):
                body = reader.read(_length(head))
                self.seen.append((head, body))
                self.answer(Out(head, body, connection))


def _length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")), 0)


def _head(reader: Any) -> bytes:
    lines = []
    while (line := reader.readline()) not in (b"\r\n", b""):
        lines.append(line)
    return b"".join(lines)


@dataclass
class Bench:
    """Opens cells in one gateway process."""

    gateway: GatewayProcess
    directory: Path
    tools: list[dict[str, Any]] = field(default_factory=lambda: TOOLS)
    limits: CellLimits = NO_LIMITS
    key: str = KEY
    _count: int = 0

    def cell(self, model: dict[str, Any], script: list[dict[str, Any]] | None = None, **fields: Any) -> OpenCell:
        self._count += 1
        root = self.directory / f"attempt{self._count}"
        (root / "live").mkdir(parents=True)
        path = None
        if script is not None:
            path = self.directory / f"script{self._count}.jsonl"
            path.write_text("\n".join(json.dumps(line) for line in script))
        settings: dict[str, Any] = {"limits": NO_LIMITS, **fields}
        cell = GatewayCell(key=str(root), attempt_root=root, model=model, script=path, **settings)
        return OpenCell(self.gateway.open_cell(cell), root)

    def scripted(self, script: list[dict[str, Any]], **fields: Any) -> OpenCell:
        return self.cell({"name": "fixed", "provider": "scripted", "model": "m1", "max_retries": 0}, script, **fields)

    def live(self, upstream: Upstream, model: dict[str, Any] | None = None, **fields: Any) -> OpenCell:
        settings = {"name": "live", "provider": "openai", "base_url": upstream.url, "model": "m1", "max_retries": 0}
        settings |= {"api_key_env": "PLANTED_KEY", "timeout_s": 5.0, **(model or {})}
        return self.cell(settings, **fields)


@pytest.fixture(scope="session")
def gateway_process() -> Iterator[GatewayProcess]:
    directory = Path(tempfile.mkdtemp(prefix="agw", dir="/tmp"))
    with GatewayProcess.start(
        directory / "run", ["PLANTED_KEY"], {"PLANTED_KEY": KEY, "PATH": "/usr/bin:/bin"}
    ) as gateway:
        yield gateway
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def small_process() -> Iterator[GatewayProcess]:
    """A gateway with small caps and short deadlines."""
    directory = Path(tempfile.mkdtemp(prefix="agw", dir="/tmp"))
    options = ["--max-body", "1000000", "--head-seconds", "0.3", "--body-seconds", "0.3", "--write-seconds", "0.5"]
    environment = {"PLANTED_KEY": KEY, "PATH": "/usr/bin:/bin"}
    with GatewayProcess.start(directory / "run", ["PLANTED_KEY"], environment, options) as gateway:
        yield gateway
    shutil.rmtree(directory)


@pytest.fixture
def small_bench(small_process: GatewayProcess, tmp_path: Path) -> Bench:
    return Bench(small_process, tmp_path / "small")


@pytest.fixture
def bench(gateway_process: GatewayProcess, tmp_path: Path) -> Bench:
    return Bench(gateway_process, tmp_path)


@pytest.fixture
def upstream() -> Iterator[Callable[[Callable[[Out], None]], Upstream]]:
    started: list[Upstream] = []

    def start(answer: Callable[[Out], None]) -> Upstream:
        found = Upstream(answer)
        threading.Thread(target=found.run, daemon=True).start()
        started.append(found)
        return found

    yield start
    for server in started:
        server.close()
