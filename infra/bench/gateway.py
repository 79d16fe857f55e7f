"""What the gateway costs, against an echo server on loopback: added latency, throughput, memory, storage.

Run: `.venv/bin/python infra/bench/gateway.py [--json] [--short] [--only NAME]`. Three processes: this one (clients),
the gateway, the
echo server.

- added latency: time to the first byte through the gateway at 20 new requests a second over 16 open streams, less the
  median of the
  same load sent to the echo server directly; both syncs of the record are on the way (the response's own is not waited
  for).
- throughput: 32 connections in 8 cells, one request after the other, replies that are not streamed.
- memory: resident size of the gateway after 2,000 and after 10,000 exchanges in the same cells.
- storage: bytes of wire.jsonl and wire/** after 200 turns of growing prompts, over the bytes of the last request and
  all replies.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cells.design.cell import CellLimits
from launchers.gateway.client import GatewayProcess, GatewaySession
from launchers.gateway.contract import GatewayCell

_LIMITS = CellLimits("active", 3600, None, None, None, None, 64, 1.0, 8, "memory", 16, 10)
_STREAM_S, _EVENT_S = 0.8, 0.1
_TEXT = "The quick brown fox jumps over the lazy dog and reads a file with forty lines of code. " * 12


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    document = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def _whole_reply() -> bytes:
    message = {"role": "assistant", "content": "ok", "tool_calls": []}
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    document = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    whole = _whole_reply()
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.lower().split(b"\r\n")
            length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
            body = await reader.readexactly(length)
            if b'"stream": true' not in body[:200]:
                writer.write(whole)
                continue
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(int(_STREAM_S / _EVENT_S)):
                _chunk(writer, _event({"content": "word "}))
                await asyncio.sleep(_EVENT_S)
            _chunk(writer, _event({}, "stop") + b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _chunk(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(content), content))


def _serve_echo(port: Any) -> None:
    async def serve() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0, limit=1 << 26)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@dataclass
class Client:
    """One keep-alive connection that times its requests."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, body: bytes) -> tuple[float, int]:
        """Seconds to the first byte, and the bytes of the reply's body."""
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: m\r\ncontent-length: {len(body)}\r\n"
        begun = time.perf_counter()
        self.writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        if b"transfer-encoding: chunked" not in answer:
            first = time.perf_counter() - begun
            length = next(
                int(line.split(b":")[1]) for line in answer.split(b"\r\n") if line.startswith(b"content-length")
            )
            return first, len(await self.reader.readexactly(length))
        size, first = 0, 0.0
        while True:
            length = int(await self.reader.readline(), 16)
            first = first or time.perf_counter() - begun
            size += len(await self.reader.readexactly(length + 2)) - 2
            if length == 0:
                return first, size

    def close(self) -> None:
        self.writer.close()


Opener = Callable[[int], Awaitable[Client]]


@dataclass
class Cells:
    """Cells of the gateway under test, and the echo server behind them."""

    gateway: GatewayProcess
    directory: Path
    port: int
    count: int = 0

    def open(self) -> tuple[GatewaySession, Path]:
        self.count += 1
        root = self.directory / f"a{self.count}"
        (root / "live").mkdir(parents=True)
        model = {"name": "echo", "provider": "openai", "base_url": f"http://127.0.0.1:{self.port}/v1", "model": "m"}
        return self.gateway.open_cell(GatewayCell(str(self.count), root, model, _LIMITS)), root

    async def direct(self, _: int) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26))

    def through(self, sessions: list[GatewaySession]) -> Opener:
        async def opener(number: int) -> Client:
            path = sessions[number % len(sessions)].socket_dir / "model.sock"
            return Client(*await asyncio.open_unix_connection(str(path), limit=1 << 26))

        return opener


def _request(turn: int, stream: bool, size: int = 4) -> bytes:
    messages = [{"role": "user", "content": f"{turn} {_TEXT}"} for _ in range(size)]
    return json.dumps({"stream": stream, "model": "m", "messages": messages, "tools": []}).encode()


async def stream_load(opener: Opener, requests: int, per_second: float = 20.0) -> list[float]:
    """Times to the first byte of evenly spaced new streams."""
    times: list[float] = []

    async def one(number: int) -> None:
        client = await opener(number)
        first, _ = await client.ask(_request(number, stream=True))
        times.append(first)
        client.close()

    tasks = []
    begun = time.perf_counter()
    for number in range(requests):
        await asyncio.sleep(max(0.0, begun + number / per_second - time.perf_counter()))
        tasks.append(asyncio.create_task(one(number)))
    await asyncio.gather(*tasks)
    return times


async def saturate(
    opener: Opener, connections: int, seconds: float | None, requests: int = 1 << 30
) -> tuple[int, float]:
    """Requests done and seconds taken, each connection sending as fast as it is answered."""
    done = 0
    begun = time.perf_counter()
    end = begun + seconds if seconds is not None else float("inf")

    async def one(number: int) -> None:
        nonlocal done
        client = await opener(number)
        while time.perf_counter() < end and done < requests:
            done += 1
            await client.ask(_request(done, stream=False))
        client.close()

    await asyncio.gather(*(one(number) for number in range(connections)))
    return done, time.perf_counter() - begun


async def grow(opener: Opener, turns: int) -> tuple[int, int]:
    """A run of growing prompts; bytes of the last request and of all replies."""
    client = await opener(0)
    messages: list[dict[str, Any]] = [{"role": "system", "content": _TEXT}, {"role": "user", "content": "fix it"}]
    tools = [{"type": "function", "function": {"name": f"tool{n}", "description": _TEXT}} for n in range(6)]
    body, replies = b"", 0
    for turn in range(turns):
        body = json.dumps({"stream": False, "model": "m", "messages": messages, "tools": tools}).encode()
        _, size = await client.ask(body)
        replies += size
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "bash", "arguments": f'{{"n":{turn}}}'}}
        messages.append({"role": "assistant", "content": f"I do step {turn}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": f"{turn}: {_TEXT}"})
    client.close()
    return len(body), replies


def _percentile(times: list[float], part: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


def _resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def latency(cells: Cells, requests: int) -> dict[str, Any]:
    """Added milliseconds to the first byte."""
    session, _ = cells.open()
    asyncio.run(stream_load(cells.through([session]), 20))
    direct = asyncio.run(stream_load(cells.direct, requests))
    through = asyncio.run(stream_load(cells.through([session]), requests))
    session.close()
    base = statistics.median(direct)
    return {
        "requests": requests,
        "direct_p50_ms": round(base * 1e3, 2),
        "direct_p99_ms": round(_percentile(direct, 0.99) * 1e3, 2),
        "added_p50_ms": round((statistics.median(through) - base) * 1e3, 2),
        "added_p99_ms": round((_percentile(through, 0.99) - base) * 1e3, 2),
    }


def throughput(cells: Cells, seconds: float) -> dict[str, Any]:
    """Requests a second when nobody waits."""
    sessions = [cells.open()[0] for _ in range(8)]
    done, took = asyncio.run(saturate(cells.through(sessions), 32, seconds))
    for session in sessions:
        session.close()
    return {"requests_per_s": round(done / took, 1), "seconds": round(took, 1)}


def memory(cells: Cells, exchanges: int) -> dict[str, Any]:
    """Resident size early and late."""
    sessions = [cells.open()[0] for _ in range(4)]
    first = exchanges // 5
    asyncio.run(saturate(cells.through(sessions), 8, None, first))
    early = _resident_mb(cells.gateway.pid)
    asyncio.run(saturate(cells.through(sessions), 8, None, exchanges - first))
    late = _resident_mb(cells.gateway.pid)
    for session in sessions:
        session.close()
    return {
        "exchanges": exchanges,
        "early_mb": round(early, 1),
        "late_mb": round(late, 1),
        "grown_mb": round(late - early, 1),
    }


def storage(cells: Cells, turns: int) -> dict[str, Any]:
    """How many times what is new is stored."""
    session, root = cells.open()
    last, replies = asyncio.run(grow(cells.through([session]), turns))
    session.close()
    wire = (root / "live/wire.jsonl").stat().st_size
    bodies = sum(path.stat().st_size for path in (root / "live/wire").iterdir())
    everything = sum(path.stat().st_size for path in (root / "live").rglob("*") if path.is_file())
    return {
        "turns": turns,
        "last_request_bytes": last,
        "reply_bytes": replies,
        "wire_bytes": wire,
        "body_bytes": bodies,
        "factor": round((wire + bodies) / (last + replies), 2),
        "factor_with_derived": round(everything / (last + replies), 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the gateway costs.")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--short", action="store_true", help="a tenth of the work")
    parser.add_argument("--only", choices=("latency", "throughput", "memory", "storage"))
    asked = parser.parse_args()
    part = 10 if asked.short else 1
    directory = Path(tempfile.mkdtemp(prefix="agw"))
    ports = multiprocessing.get_context("spawn").Queue()
    echo = multiprocessing.get_context("spawn").Process(target=_serve_echo, args=(ports,), daemon=True)
    echo.start()
    with GatewayProcess.start(directory / "run") as gateway:
        cells = Cells(gateway, directory, ports.get(timeout=30))
        measures: dict[str, Callable[[], dict[str, Any]]] = {
            "latency": lambda: latency(cells, 1200 // part),
            "throughput": lambda: throughput(cells, 20 / part),
            "memory": lambda: memory(cells, 10_000 // part),
            "storage": lambda: storage(cells, 200),
        }
        chosen = [asked.only] if asked.only else list(measures)
        found = {name: measures[name]() for name in chosen}
    echo.terminate()
    shutil.rmtree(directory)
    print(json.dumps(found) if asked.json else json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
