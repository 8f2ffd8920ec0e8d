"""A clock that a test moves: brokers and what happens in them, without sleeping."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from headrace.log.chores import Chore
from headrace.protocol.error_codes import ErrorCode
from headrace.server.clock import MovableClock as ClockOfOneLoop
from headrace.server.later import Later
from headrace.server.shared_clock import STRIDES
from headrace.server.worker import Worker
from headrace.testing import MovableClock
from tests.support.one_topic import FETCH_VERSION, client_of, fetch_request, produce, values

DAY = 24 * 3600


class LoopThread:
    """What a broker has: a loop in a thread, and a worker."""

    def __init__(self, clock: MovableClock) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.worker: Worker | None = None
        self.clock: ClockOfOneLoop = clock.join(self.loop, self._idle)

    def _idle(self) -> Later[None]:
        self.worker = self.worker or Worker(self.loop)
        return self.worker.idle()

    def call_later(self, seconds: float, callback: Any) -> None:
        async def ask() -> None:
            self.clock.call_later(seconds * 1000, callback)

        asyncio.run_coroutine_threadsafe(ask(), self.loop).result()

    def close(self) -> None:
        async def end() -> None:
            if self.worker is not None:
                self.worker.close()

        asyncio.run_coroutine_threadsafe(end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(1_000_000)


@pytest.fixture
def node(clock: MovableClock) -> Iterator[LoopThread]:
    node = LoopThread(clock)
    yield node
    node.close()


def test_it_begins_at_the_present_and_stands_still() -> None:
    before = time.time_ns() // 1_000_000
    clock = MovableClock()
    assert before <= clock.now_ms() <= time.time_ns() // 1_000_000
    assert clock.now_ms() == clock.now_ms()
    assert repr(MovableClock(5)) == "<MovableClock at 5 ms>"


def test_calls_happen_on_their_loop_in_the_order_and_at_the_time_in_which_they_are_due(
    clock: MovableClock, node: LoopThread
) -> None:
    seen: list[tuple[str, int, str]] = []

    def note(name: str) -> Any:
        return lambda: seen.append((name, node.clock.now_ms(), threading.current_thread().name))

    for name, seconds in (("c", 30), ("a", 10), ("b", 20.5), ("late", 30.001)):
        node.call_later(seconds, note(name))
    clock.advance(30)
    thread = node._thread.name
    assert seen == [("a", 1_010_000, thread), ("b", 1_020_500, thread), ("c", 1_030_000, thread)]
    assert clock.now_ms() == 1_030_000


def test_time_passes_where_nothing_is_due(clock: MovableClock, node: LoopThread) -> None:
    clock.advance(1.5)
    node.call_later(10, lambda: None)
    clock.advance(0.5)
    assert clock.now_ms() == node.clock.now_ms() == 1_002_000


def test_what_repeats_happens_every_time_on_a_short_way(clock: MovableClock, node: LoopThread) -> None:
    seen: list[int] = []

    def tick() -> None:
        seen.append(node.clock.now_ms())
        node.clock.call_later(1000, tick)

    node.call_later(1, tick)
    clock.advance(100)
    assert seen == [1_000_000 + second * 1000 for second in range(1, 101)]


def test_on_a_long_way_what_repeats_happens_some_times_and_what_is_single_at_its_time(
    clock: MovableClock, node: LoopThread
) -> None:
    ticks: list[int] = []
    single: list[int] = []

    def tick() -> None:
        ticks.append(node.clock.now_ms())
        node.clock.call_later(1000, tick)

    node.call_later(1, tick)
    node.call_later(12_345.678, lambda: single.append(node.clock.now_ms()))
    clock.advance(30 * DAY)
    assert single == [1_000_000 + 12_345_678]
    assert STRIDES // 2 <= len(ticks) <= STRIDES + 2
    assert ticks == sorted(ticks)
    assert 1_000_000 + 30 * DAY * 1000 - ticks[-1] <= 1000, "the last tick is not older than it may be"


def test_moving_waits_for_what_calls_give_to_the_worker_and_for_what_that_leads_to(
    clock: MovableClock, node: LoopThread
) -> None:
    done: list[str] = []
    go = threading.Event()

    class Slow(Chore):
        def __init__(self, name: str, then: "Slow | None" = None) -> None:
            self._name = name
            self._then = then

        def run(self) -> None:
            go.wait(120)

        def done(self) -> None:
            done.append(self._name)
            if self._then is not None:
                node.worker.submit(self._then)  # type: ignore[union-attr]

        def failed(self, error: OSError) -> None:
            raise error

    node.call_later(1, lambda: node.worker.submit(Slow("first", Slow("second"))))  # type: ignore[union-attr]
    timer = threading.Timer(0.05, go.set)
    timer.start()
    clock.advance(1)
    assert done == ["first", "second"]
    timer.join()


def test_an_error_in_a_call_is_told_to_whoever_moves_the_clock(clock: MovableClock, node: LoopThread) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    node.call_later(1, fail)
    with pytest.raises(ZeroDivisionError):
        clock.advance(2)


def test_several_loops_go_by_one_clock(clock: MovableClock, node: LoopThread) -> None:
    other = LoopThread(clock)
    seen: list[str] = []
    try:
        for name, seconds, loop in (("one", 1, node), ("two", 2, other), ("three", 3, node)):
            loop.call_later(seconds, lambda name=name: seen.append(name))
        clock.advance(3)
        assert seen == ["one", "two", "three"]
        assert node.clock.now_ms() == other.clock.now_ms() == clock.now_ms()
    finally:
        clock.leave(other.clock)
        other.close()
    clock.advance(1)


def test_time_does_not_go_back(clock: MovableClock) -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        clock.advance(-1)


# With brokers


def test_records_are_deleted_when_their_time_is_over() -> None:
    with headrace.Broker(clock=MovableClock()) as broker:
        broker.create_topic("orders")
        with client_of(broker.address) as client:
            produce(client, "orders", b"1", timestamp_ms=broker.clock.now_ms())
            broker.clock.advance(7 * DAY - 1)
            assert values(client, "orders") == [b"1"]
            broker.clock.advance(10 * 60)
            row = client.ask("Fetch", FETCH_VERSION, fetch_request("orders")).responses[0].partitions[0]
            assert row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert values(client, "orders", offset=1) == []
        files = os.listdir(f"{broker._path}/orders-0")
        assert "00000000000000000000.log" not in files
        assert not [name for name in files if name.endswith(".deleted")], "its files are gone, too"


def test_compaction_is_done_when_the_clock_has_moved() -> None:
    configs: dict[str, Any] = {
        "cleanup_policy": "compact",
        "segment_ms": 1000,
        "min_cleanable_dirty_ratio": 0,
        "delete_retention_ms": 0,
    }
    with headrace.Broker(clock=MovableClock()) as broker:
        broker.create_topic("users", **configs)
        with client_of(broker.address) as client:
            for value in (b"1", b"2", b"3"):
                produce(client, "users", value, key=b"alice", timestamp_ms=broker.clock.now_ms())
                broker.clock.advance(2)
            assert values(client, "users") == [b"1", b"2", b"3"]
            broker.clock.advance(60)
            assert values(client, "users") == [b"2", b"3"], "all but the last segment is compacted"


def test_a_fetch_that_waits_is_answered_when_its_time_is_over() -> None:
    with headrace.Broker(clock=MovableClock()) as broker:
        broker.create_topic("orders")
        arrival = broker.faults.delay("Fetch", seconds=0)
        with client_of(broker.address) as client:
            correlation_id = client.send("Fetch", FETCH_VERSION, fetch_request("orders", max_wait_ms=600_000))
            arrival.wait()
            broker.clock.advance(600)
            client.receive("Fetch", FETCH_VERSION, correlation_id)


def test_brokers_share_a_clock_and_may_come_and_go() -> None:
    clock = MovableClock()
    with headrace.Broker(clock=clock) as stays:
        with headrace.Broker(clock=clock) as goes:
            clock.advance(10)
            goes.kill()
            clock.advance(10)
            goes.restart()
            clock.advance(10)
        clock.advance(10)
        with client_of(stays.address) as client:
            stays.create_topic("orders")
            assert produce(client, "orders", b"1") == 0
