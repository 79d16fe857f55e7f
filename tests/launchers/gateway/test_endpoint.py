"""Endpoints: concurrency, rate and breaker are shared by all cells."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from launchers.gateway.endpoint import Endpoint
from launchers.gateway.providers.base import ProviderFault
from launchers.gateway.tries import Tries

FAULT = ProviderFault("unreachable", "nobody there", retry=True)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_no_more_are_under_way_than_allowed() -> None:
    async def run() -> int:
        endpoint = Endpoint("e", max_concurrency=3)
        highest = 0

        async def one() -> None:
            nonlocal highest
            async with endpoint.admitted():
                highest = max(highest, endpoint.in_flight)
                await asyncio.sleep(0)

        await asyncio.gather(*(one() for _ in range(30)))
        assert (endpoint.in_flight, endpoint.queued) == (0, 0)
        return highest

    assert asyncio.run(run()) == 3


def test_a_place_is_given_back_when_its_holder_is_cancelled() -> None:
    async def run() -> None:
        endpoint = Endpoint("e", max_concurrency=1)

        async def hold() -> None:
            async with endpoint.admitted():
                await asyncio.sleep(60)

        holder, waiter = asyncio.create_task(hold()), asyncio.create_task(hold())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in (waiter, holder):
            task.cancel()
        await asyncio.gather(holder, waiter, return_exceptions=True)
        async with asyncio.timeout(5):
            async with endpoint.admitted():
                assert endpoint.in_flight == 1

    asyncio.run(run())


def test_starts_are_spaced_by_the_rate() -> None:
    async def run() -> list[float]:
        loop = asyncio.get_running_loop()
        endpoint = Endpoint("e", requests_per_minute=1200, now=loop.time)
        starts: list[float] = []

        async def one() -> None:
            async with endpoint.admitted():
                starts.append(loop.time())

        await asyncio.gather(*(one() for _ in range(5)))
        return sorted(starts)

    starts = asyncio.run(run())
    assert starts[-1] - starts[0] >= 4 * 0.05 - 0.005


def test_faults_in_a_row_open_the_breaker_and_one_success_closes_it() -> None:
    async def run() -> None:
        clock = Clock()
        endpoint = Endpoint("e", now=clock)
        for _ in range(8):
            assert not endpoint.status().down
            endpoint.failed(FAULT)
        assert endpoint.status().down
        assert endpoint.status().detail == "unreachable: nobody there"
        with pytest.raises(ProviderFault) as refusal:
            async with endpoint.admitted():
                pass
        assert refusal.value.failure == "endpoint_down"
        clock.seconds += 16
        async with endpoint.admitted():
            with pytest.raises(ProviderFault):
                async with endpoint.admitted():
                    pass
            endpoint.succeeded()
        assert not endpoint.status().down

    asyncio.run(run())


def test_a_success_between_faults_keeps_the_breaker_closed() -> None:
    endpoint = Endpoint("e", now=Clock())
    for _ in range(50):
        endpoint.failed(FAULT)
        endpoint.succeeded()
    assert not endpoint.status().down


def test_waits_double_with_jitter_and_obey_the_provider() -> None:
    tries = Tries(provider=None, endpoint=Endpoint("e"), max_retries=9, random=random.Random(1))  # type: ignore[arg-type]
    for number in range(9):
        longest = min(30.0, 0.5 * 2**number)
        waits = [tries._wait(number, None) or 0.0 for _ in range(50)]
        assert all(longest / 2 <= wait <= longest for wait in waits)
        assert len(set(waits)) > 40
    assert tries._wait(0, 100.0) == 100.0
    assert tries._wait(0, 121.0) is None


def test_cells_share_one_endpoint(bench: Any, upstream: Any) -> None:
    import threading

    arrived, go_on = threading.Semaphore(0), threading.Event()
    reply = {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}]}

    def hold(out: Any) -> None:
        arrived.release()
        go_on.wait(20)
        out.json(reply)

    server = upstream(hold)
    cells = [bench.live(server, {"max_concurrency": 2}) for _ in range(4)]
    threads = [threading.Thread(target=cell.chat, args=([{"role": "user", "content": "x"}],)) for cell in cells]
    for thread in threads:
        thread.start()
    assert arrived.acquire(timeout=20) and arrived.acquire(timeout=20)
    [found] = [status for status in bench.gateway.endpoints() if server.url in status.name]
    assert found.in_flight == 2
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(server.seen) == 4
    queued = [cell.session.close().queue_s for cell in cells]
    assert max(queued) > 0


def test_an_endpoint_that_is_down_loses_cells_at_once_and_is_told_to_the_study(bench: Any) -> None:
    model = {"name": "x", "provider": "openai", "base_url": "http://127.0.0.1:9/down", "model": "m", "max_retries": 0}
    cells = [bench.cell(model) for _ in range(9)]
    kinds = [cell.chat([{"role": "user", "content": "x"}]).json()["error"]["code"] for cell in cells]
    assert kinds == ["unreachable"] * 8 + ["endpoint_down"]
    [found] = [status for status in bench.gateway.endpoints() if "9/down" in status.name]
    assert found.down
    assert {cell.session.close().failure for cell in cells} == {"endpoint_down"}
