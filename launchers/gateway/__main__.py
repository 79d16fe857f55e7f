"""The gateway process: `python -m launchers.gateway --run-dir DIR --key NAME...`.

It ends when its standard input ends (its parent is gone), when it is told to, or on SIGTERM. Keys are taken out of its
environment at once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp

from launchers.gateway.contract import ListenLimits
from launchers.gateway.control import Control
from launchers.gateway.sessions import Sessions

_SYNC_THREADS = 16
_MAX_FIELD = 65_536
_SWITCH_S = 0.0005
"""A thread that finished a sync gets its turn this soon; the interpreter's default is ten times as long."""


def main() -> None:
    """Serve until the parent is gone."""
    parser = argparse.ArgumentParser(prog="launchers.gateway", description="Serves models to cells over unix sockets.")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--key", action="append", default=[], help="name of an environment variable that holds a key")
    parser.add_argument("--max-body", type=int, default=ListenLimits.max_body)
    parser.add_argument("--head-seconds", type=float, default=ListenLimits.head_s)
    parser.add_argument("--body-seconds", type=float, default=ListenLimits.body_s)
    parser.add_argument("--write-seconds", type=float, default=ListenLimits.write_s)
    asked = parser.parse_args()
    keys = {name: os.environ.pop(name) for name in asked.key if name in os.environ}
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    gc.freeze()
    sys.setswitchinterval(_SWITCH_S)
    limits = ListenLimits(asked.max_body, asked.head_seconds, asked.body_seconds, asked.write_seconds)
    asyncio.run(serve(asked.run_dir, keys, limits))


async def serve(run_dir: Path, keys: Mapping[str, str], limits: ListenLimits) -> None:
    """Open the control socket, say so on stdout, serve, close everything."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watcher = await _watch_parent(stop)
    _clear(run_dir)
    connector = aiohttp.TCPConnector(limit=0)
    jar = aiohttp.DummyCookieJar()
    with ThreadPoolExecutor(_SYNC_THREADS, "sync") as executor, ThreadPoolExecutor(1, "heavy") as heavy:
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=jar,
            auto_decompress=False,
            max_line_size=_MAX_FIELD,
            max_field_size=_MAX_FIELD,
        ) as client:
            sessions = Sessions(run_dir, keys, client, executor, heavy, limits)
            control = await Control(sessions, stop).listen(run_dir)
            print(json.dumps({"ready": True, "pid": os.getpid()}), flush=True)  # noqa: T201 (the parent reads it)
            await stop.wait()
            control.close()
            await sessions.close_all()
    watcher.close()


def _clear(run_dir: Path) -> None:
    """Remove the sockets that a killed process left in this directory of ours."""
    for left in run_dir.glob("c*/model.sock"):
        left.unlink()
        left.parent.rmdir()


async def _watch_parent(stop: asyncio.Event) -> asyncio.BaseTransport:
    """The parent holds the other end of our standard input: its end is ours."""

    class Watch(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            stop.set()

    transport, _ = await asyncio.get_running_loop().connect_read_pipe(Watch, sys.stdin)
    return transport


if __name__ == "__main__":
    main()
