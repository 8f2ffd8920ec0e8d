"""The consumer for asyncio, against both brokers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import headrace
import headrace.aio
from headrace.client.topic_partition import TopicPartition
from tests.support.both_brokers import unique
from tests.support.consuming import fill

SECONDS = 120.0  # so long the machine may be busy; what needs it is broken


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await story()

    asyncio.run(bounded())


@pytest.fixture
def topic(bootstrap: str) -> str:
    """Two partitions with five records each: 0-0 to 1-4."""
    name = unique("orders")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    fill(bootstrap, name, {number: [f"{number}-{place}" for place in range(5)] for number in range(2)})
    return name


def test_records_of_a_group_are_iterated_over_and_committed(bootstrap: str, topic: str) -> None:
    group = unique("g")

    async def story() -> None:
        found = []
        async with headrace.aio.Consumer(
            bootstrap, group=group, topics=[topic], auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                found.append(record.value.decode())
                if len(found) == 10:
                    break
            assert consumer.subscription() == {topic}
            assert consumer.group_member.generation > 0
        assert sorted(found) == sorted(f"{number}-{place}" for number in range(2) for place in range(5))
        async with headrace.aio.Consumer(bootstrap, group=group) as consumer:
            places = [TopicPartition(topic, number) for number in range(2)]
            assert await consumer.committed(places) == dict.fromkeys(places, headrace.OffsetAndMetadata(5, 0))

    run(story)


def test_an_iteration_that_was_left_goes_on_where_it_was(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        place = TopicPartition(topic, 0)
        async with headrace.aio.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([place])
            async for record in consumer:
                if record.offset == 1:
                    break
            assert await consumer.position(place) == 2
            async for record in consumer:
                assert record.offset == 2
                break
            assert [record.offset for record in await consumer.poll(SECONDS)] == [3, 4]

    run(story)


def test_places_and_offsets(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with headrace.aio.Consumer(bootstrap, group=unique("g"), auto_offset_reset="earliest") as consumer:
            assert await consumer.partitions(topic) == [zero, one]
            await consumer.assign([zero, one])
            assert consumer.assignment() == {zero, one}
            await consumer.pause(one)
            assert consumer.paused() == {one}
            await consumer.seek(zero, 3)
            assert [record.offset for record in await consumer.poll(SECONDS)] == [3, 4]
            assert consumer.lag(zero) == 0
            assert await consumer.beginning_offsets([zero]) == {zero: 0}
            assert await consumer.end_offsets([zero]) == {zero: 5}
            assert await consumer.offsets_for_times({zero: 2**45}) == {zero: None}
            await consumer.commit({zero: 4})
            done = asyncio.Event()
            loop = asyncio.get_running_loop()
            await consumer.commit_async({zero: 5}, on_done=lambda *_: loop.call_soon_threadsafe(done.set))
            await done.wait()
            assert await consumer.committed([zero]) == {zero: headrace.OffsetAndMetadata(5)}
            await consumer.resume(one)
            assert [record.partition for record in await consumer.poll(SECONDS)] == [1] * 5
            await consumer.seek_to_end()
            assert await consumer.position(one) == 5
            await consumer.seek_to_beginning(one)
            assert await consumer.position(one) == 0
            await consumer.unsubscribe()
            assert consumer.assignment() == set()

    run(story)


def test_listeners_may_be_coroutine_functions(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        heard: list[str] = []
        consumer = headrace.aio.Consumer(bootstrap, group=unique("g"), auto_offset_reset="earliest")

        async def assigned(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                await consumer.seek(partition, 4)
            heard.append("assigned")

        async def revoked(partitions: list[TopicPartition]) -> None:
            await consumer.commit(dict.fromkeys(partitions, 5))
            heard.append("revoked")

        await consumer.subscribe([topic], on_assigned=assigned, on_revoked=revoked)
        records: list[headrace.ConsumerRecord] = []
        while len(records) < 2:
            records += await consumer.poll(1.0)
        assert {record.offset for record in records} == {4}
        await consumer.close()
        assert heard == ["assigned", "revoked"]
        with pytest.raises(headrace.ClosedError):
            await consumer.poll()

    run(story)


def test_a_poll_without_records_ends_in_time_and_wakeup_ends_it_earlier(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        async with headrace.aio.Consumer(bootstrap) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            assert await consumer.poll() == []
            assert await consumer.poll(0.05) == []
            asyncio.get_running_loop().call_later(0.05, consumer.wakeup)
            with pytest.raises(headrace.WakeupError):
                async for _ in consumer:
                    pass

    run(story)


@pytest.mark.slow
def test_a_program_that_keeps_its_loop_busy_keeps_its_partitions(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        configs: dict[str, Any] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
        async with headrace.aio.Consumer(
            bootstrap, group=unique("g"), topics=[topic], auto_offset_reset="earliest", **configs
        ) as consumer:
            assert len(await consumer.poll(SECONDS)) > 0
            generation = consumer.group_member.generation
            time.sleep(8)  # a program that does not give its loop a chance; longer than the session
            await consumer.commit()
            assert consumer.group_member.generation == generation

    run(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_poll_that_is_cancelled_while_partitions_go_hears_of_them_the_next_time(protocol: str) -> None:
    async def story() -> None:
        heard: list[tuple[str, list[TopicPartition]]] = []
        with headrace.Broker(
            group_consumer_heartbeat_interval_ms=100, group_consumer_min_heartbeat_interval_ms=100
        ) as broker:
            broker.create_topic("orders", 2)
            fill(broker.address, "orders", {0: ["a"], 1: ["b"]})
            configs: dict[str, Any] = {
                "group": "g",
                "group_protocol": protocol,
                "auto_offset_reset": "earliest",
                "auto_commit_interval_ms": 600_000,  # the first commit is that of the rebalance
            }
            async with headrace.aio.Consumer(broker.address, **configs) as first:
                await first.subscribe(
                    ["orders"],
                    on_assigned=lambda places: heard.append(("assigned", places)),
                    on_revoked=lambda places: heard.append(("revoked", places)),
                )
                found: list[headrace.ConsumerRecord] = []
                while len(found) < 2:
                    found += await first.poll(1.0)
                fault = broker.faults.delay("OffsetCommit", seconds=1.0, times=1)
                async with headrace.aio.Consumer(broker.address, topics=["orders"], **configs) as second:
                    other = asyncio.create_task(second.poll(SECONDS, max_records=1))
                    polling = asyncio.create_task(first.poll(SECONDS))
                    await asyncio.to_thread(fault.wait)
                    polling.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await polling
                    assert [kind for kind, _ in heard] == ["assigned"]
                    while len(heard) == 1:
                        await first.poll(0.05)
                    assert heard[1][0] == "revoked"
                    other.cancel()
                    await asyncio.wait([other])

    run(story)


def test_a_consumer_whose_close_is_cancelled_is_closed_all_the_same() -> None:
    async def story() -> None:
        with headrace.Broker() as broker:
            broker.create_topic("orders", 1)
            fill(broker.address, "orders", {0: ["a"]})
            consumer = headrace.aio.Consumer(broker.address, group="g", topics=["orders"], auto_offset_reset="earliest")
            assert await consumer.poll(SECONDS)
            fault = broker.faults.delay("LeaveGroup", seconds=1.0, times=1)
            closing = asyncio.create_task(consumer.close())
            await asyncio.to_thread(fault.wait)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await consumer.close()  # waits for the end of the first one
            with pytest.raises(headrace.ClosedError):
                await consumer.poll()
            async with headrace.aio.Admin(broker.address) as admin:
                assert not (await admin.describe_group("g")).members

    run(story)
