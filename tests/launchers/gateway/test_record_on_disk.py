"""The record on disk: before a byte is passed on, in one order, and readable whatever kills the gateway."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cells.errors import InfraFailure
from cells.recording.wire import RequestRow, read_wire
from launchers.gateway.client import GatewayProcess
from launchers.gateway.commit import GroupCommit, GrowingFile, RecordLost
from launchers.gateway.record import SessionRecord

ASK = [{"role": "user", "content": "hello"}]
REPLY = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}


def test_a_request_is_on_disk_before_the_provider_sees_it(bench: Any, upstream: Any) -> None:
    found: list[Any] = []
    roots: list[Path] = []

    def look(out: Any) -> None:
        found.append(read_wire((roots[0] / "live/wire.jsonl").read_bytes()).rows[-1])
        out.json(REPLY)

    cell = bench.live(upstream(look))
    roots.append(cell.root)
    cell.chat([{"role": "user", "content": "x" * 5000}])
    [row] = found
    assert isinstance(row, RequestRow)
    assert b"x" * 5000 in cell.body(row)
    cell.session.close()


def test_exchanges_of_many_threads_are_recorded_in_one_order(bench: Any) -> None:
    cell = bench.scripted([{"content": "r", "repeat": True}, {"content": "s", "lane": "side", "repeat": True}])

    def ask(number: int) -> int:
        own = type(cell)(cell.session, cell.root)
        return int(own.chat([{"role": "system", "content": f"lane {number % 3}"}, *ASK]).status)

    with ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(ask, range(40)))
    assert set(statuses) == {200}
    cell.session.close()
    assert len(cell.responses()) == 40
    cell.assert_derived_alike()


def test_waiters_share_syncs(tmp_path: Path) -> None:
    async def run() -> tuple[int, int]:
        with ThreadPoolExecutor(4) as executor:
            file = GrowingFile.create(tmp_path / "f")
            commit = GroupCommit(executor, lambda: [file.descriptor])

            async def one(number: int) -> None:
                file.add(b"%d\n" % number)
                file.flush()
                await commit.durable(commit.written())

            await asyncio.gather(*(one(number) for number in range(50)))
            file.close()
            return commit.syncs, file.size

    syncs, size = asyncio.run(run())
    assert syncs <= 3
    assert (tmp_path / "f").stat().st_size == size


def test_a_sync_that_failed_is_final(tmp_path: Path) -> None:
    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            reader, writer = os.pipe()
            commit = GroupCommit(executor, lambda: [writer])
            for _ in range(2):
                with pytest.raises(RecordLost):
                    await commit.durable(commit.written())
            os.close(reader)
            os.close(writer)

    asyncio.run(run())


def test_a_full_disk_loses_the_cell_and_not_the_gateway(bench: Any) -> None:
    cell, other = bench.scripted([{"content": "x"}] * 3), bench.scripted([{"content": "x"}])
    limit_files(bench.gateway.pid, 20_000)
    try:
        assert cell.chat([{"role": "user", "content": os.urandom(30_000).hex()}]).status == 503
        assert cell.session.status().failure == "record_lost"
        assert cell.chat(ASK).status == 503
    finally:
        limit_files(bench.gateway.pid, None)
    assert other.chat(ASK).status == 200
    assert other.session.close().failure is None
    assert cell.session.close().failure == "record_lost"


def limit_files(pid: int, size: int | None) -> None:
    """Let the process write files of at most so many bytes: EFBIG stands for any fault of writing."""
    import resource

    top = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (top if size is None else size, top))


def test_a_record_is_begun_once(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    (tmp_path / "live/wire.jsonl").write_bytes(b"something\n")
    with ThreadPoolExecutor(1) as executor, pytest.raises(FileExistsError, match="a record is begun once"):
        SessionRecord.create(tmp_path, 0.0, executor)


def test_a_link_in_place_of_the_record_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    (tmp_path / "live/wire.jsonl").symlink_to(tmp_path / "elsewhere")
    with ThreadPoolExecutor(1) as executor, pytest.raises(OSError):
        SessionRecord.create(tmp_path, 0.0, executor)
    assert not (tmp_path / "elsewhere").exists()


def test_segments_are_numbered_and_each_has_its_usage(bench: Any) -> None:
    cell = bench.scripted(
        [{"content": "x", "usage": {"input": 1, "output": 1}}] * 2, provenance={"edit_format": "diff"}
    )
    cell.chat(ASK)
    assert cell.session.begin_segment({"edit_format": "whole"}) == 2
    cell.chat(ASK)
    cell.session.close("stop")
    starts = cell.trace("session_start")
    assert [(row["segment"], row["edit_format"]) for row in starts] == [(1, "diff"), (2, "whole")]
    assert [row["segment"] for row in cell.trace("turn")] == [1, 2]
    assert (cell.root / "live/usage.jsonl").read_text().count('"session_usage"') == 2
    cell.assert_derived_alike()


@pytest.mark.fault
@pytest.mark.parametrize("number", range(4))
def test_a_gateway_killed_at_any_moment_leaves_a_record_that_reads(bench: Any, number: int) -> None:
    """Twelve clients ask in a loop; the process is killed; every row but a torn last one reads, with its bodies."""
    directory = Path(tempfile.mkdtemp(prefix="agk", dir="/tmp"))
    stop = threading.Event()
    with GatewayProcess.start(directory / "run", [], {"PATH": "/usr/bin:/bin"}) as gateway:
        own = type(bench)(gateway, directory)
        cell = own.scripted([{"content": "y" * 3000, "repeat": True}])

        def load(client: Any) -> None:
            while not stop.is_set():
                try:
                    client.chat([{"role": "user", "content": os.urandom(700).hex()}])
                except Exception:  # noqa: BLE001 (the gateway is killed under it)
                    return

        threads = [threading.Thread(target=load, args=(type(cell)(cell.session, cell.root),)) for _ in range(12)]
        for thread in threads:
            thread.start()
        while len(cell.requests()) < 40 * (number + 1):
            stop.wait(0.01)
        os.kill(gateway.pid, signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
        with pytest.raises(InfraFailure, match="gateway_lost"):
            cell.session.status()
    answered = {row.exchange for row in cell.responses()}
    for row in cell.requests():
        if row.exchange in answered:
            assert cell.body(row)
    shutil.rmtree(directory)
