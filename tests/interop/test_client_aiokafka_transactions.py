"""aiokafka in transactions, by the older flow: partitions and offsets are added before they are written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.support.broker_process import BrokerProcess
from tests.support.clients_aiokafka import SECONDS, administering, assigned, create_topic, in_loop, sending

PARTITIONS = 3


@asynccontextmanager
async def transactional(address: str, name: str, **configs: Any) -> AsyncIterator[Any]:
    settings = {"transactional_id": name, "retry_backoff_ms": 20, **configs}
    producer = AIOKafkaProducer(bootstrap_servers=address, **settings)
    await asyncio.wait_for(producer.start(), SECONDS)
    try:
        yield producer
    finally:
        await producer.stop()


async def write(producer: Any, topic: str, numbers: range) -> None:
    futures = [await producer.send(topic, b"%d" % number, partition=number % PARTITIONS) for number in numbers]
    for future in futures:
        await asyncio.wait_for(future, SECONDS)


async def read_all(address: str, topic: str, isolation: str) -> list[int]:
    """What a consumer finds up to the ends that hold for it."""
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    found: list[int] = []
    async with assigned(address, *places, isolation_level=isolation, fetch_max_wait_ms=20) as consumer:
        ends = await consumer.end_offsets(places)
        async with asyncio.timeout(SECONDS):
            while any([await consumer.position(place) < ends[place] for place in places]):
                for records in (await consumer.getmany(timeout_ms=20)).values():
                    found += [int(record.value) for record in records]
    return sorted(found)


@in_loop
async def test_what_is_committed_is_read_and_what_is_aborted_or_open_is_not(address: str, topic: str) -> None:
    await create_topic(address, topic, PARTITIONS)
    async with transactional(address, topic) as producer:
        for first in range(0, 40, 10):
            await producer.begin_transaction()
            await write(producer, topic, range(first, first + 10))
            if first % 20:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        committed = [*range(10), *range(20, 30)]
        assert await read_all(address, topic, "read_committed") == committed
        assert await read_all(address, topic, "read_uncommitted") == list(range(40))
        async with producer.transaction(), sending(address) as other:
            await write(producer, topic, range(40, 50))
            await write(other, topic, range(50, 56))  # nobody may read past the open transaction
            assert await read_all(address, topic, "read_committed") == committed
            assert await read_all(address, topic, "read_uncommitted") == list(range(56))
        assert await read_all(address, topic, "read_committed") == [*committed, *range(40, 56)]


@in_loop
async def test_a_second_producer_with_the_same_name_fences_the_first(address: str, topic: str) -> None:
    await create_topic(address, topic, PARTITIONS)
    async with transactional(address, topic) as old:
        await old.begin_transaction()
        await write(old, topic, range(10))
        async with transactional(address, topic) as new:  # and the open transaction is aborted
            async with new.transaction():
                await write(new, topic, range(10, 20))
            with pytest.raises(ProducerFenced):
                await old.commit_transaction()
    assert await read_all(address, topic, "read_committed") == list(range(10, 20))


@in_loop
async def test_offsets_count_if_the_transaction_is_committed(address: str, topic: str) -> None:
    await create_topic(address, topic, PARTITIONS)
    place = TopicPartition(topic, 0)
    async with transactional(address, topic) as producer, administering(address) as client:

        async def committed() -> dict[int, int]:
            found = await client.list_consumer_group_offsets(topic)
            return {each.partition: row.offset for each, row in found.items()}

        await producer.begin_transaction()
        await write(producer, topic, range(3))
        await producer.send_offsets_to_transaction({place: 3}, topic)
        await producer.abort_transaction()
        assert await committed() == {}
        await producer.begin_transaction()
        await write(producer, topic, range(3, 6))
        await producer.send_offsets_to_transaction({place: (6, "why")}, topic)
        await producer.commit_transaction()
        async with asyncio.timeout(SECONDS):
            while await committed() != {0: 6}:  # Apache Kafka answers before the offsets count
                await asyncio.sleep(0.01)
    assert await read_all(address, topic, "read_committed") == [3, 4, 5]


# A broker that comes back


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@in_loop
async def test_a_broker_that_starts_again_between_any_two_steps_ends_transactions_as_they_were_meant(
    tmp_path: Path, topic: str, crash: bool
) -> None:
    with BrokerProcess(tmp_path) as broker:
        address = broker.bootstrap
        await create_topic(address, topic, PARTITIONS)
        place = TopicPartition(topic, 0)
        async with transactional(address, topic) as producer:
            for step in (
                producer.begin_transaction,
                partial(write, producer, topic, range(10)),
                partial(producer.send_offsets_to_transaction, {place: 1}, "nobody"),
                partial(write, producer, topic, range(10, 20)),
                producer.commit_transaction,
                producer.begin_transaction,
                partial(write, producer, topic, range(20, 30)),
                partial(producer.send_offsets_to_transaction, {place: 2}, "nobody"),
                producer.abort_transaction,
                producer.begin_transaction,
                partial(write, producer, topic, range(30, 40)),
                producer.commit_transaction,
            ):
                await asyncio.to_thread(broker.kill if crash else broker.stop)
                await asyncio.to_thread(broker.start)
                await asyncio.wait_for(step(), SECONDS)
        assert await read_all(address, topic, "read_committed") == [*range(20), *range(30, 40)]
        async with administering(address) as client:
            offsets = await client.list_consumer_group_offsets("nobody")
        assert {each: found.offset for each, found in offsets.items()} == {place: 1}
        broker.check_log()
