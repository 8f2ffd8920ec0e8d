"""aiokafka administers, produces, and consumes partitions that it assigns itself. It speaks the oldest versions."""

import asyncio
import random
import time
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidPartitionsError,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    UnknownError,
)

from tests.support.broker_process import BrokerProcess
from tests.support.clients_aiokafka import (
    SECONDS,
    administering,
    assigned,
    create_topic,
    in_loop,
    read,
    sending,
    take,
)

NOON_MS = 1_700_000_000_000
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def numbers(*bounds: int) -> list[bytes]:
    return [b"%d" % n for n in range(*bounds)]


async def filled(address: str, topic: str) -> TopicPartition:
    """A partition with the numbers 0 to 99, a second apart."""
    await create_topic(address, topic)
    async with sending(address) as producer:
        for n, value in enumerate(numbers(100)):
            await producer.send(topic, value, partition=0, timestamp_ms=NOON_MS + n * 1000)
        await producer.flush()
    return TopicPartition(topic, 0)


# Administering


@in_loop
async def test_topics_are_created_described_extended_and_deleted(address: str, topic: str) -> None:
    async with administering(address) as client:
        wanted = [NewTopic(topic, 3, 1), NewTopic("bad name", 1, 1), NewTopic(f"{topic}-wide", 1, 5)]
        errors = {name: code for name, code, _ in (await client.create_topics(wanted)).topic_errors}
        assert errors == {topic: 0, "bad name": 17, f"{topic}-wide": 38}
        ((_, code, _),) = (await client.create_topics([NewTopic(topic, 3, 1)])).topic_errors
        assert code == 36
        await client.create_partitions({topic: NewPartitions(5)})
        with pytest.raises(InvalidPartitionsError):
            await client.create_partitions({topic: NewPartitions(2)})
        async with asyncio.timeout(SECONDS):
            while len((described := (await client.describe_topics([topic]))[0])["partitions"]) != 5:
                await asyncio.sleep(0.01)
        assert (described["topic"], described["is_internal"]) == (topic, False)
        assert {(row["leader"], *row["replicas"], *row["isr"]) for row in described["partitions"]} == {(1, 1, 1)}
        cluster = await client.describe_cluster()
        assert [(each["node_id"], f"{each['host']}:{each['port']}") for each in cluster["brokers"]] == [(1, address)]
        assert (await client.delete_topics([topic])).topic_error_codes == [(topic, 0)]
        async with asyncio.timeout(SECONDS):
            while topic in await client.list_topics():
                await asyncio.sleep(0.01)


@in_loop
async def test_configs_are_described_and_altered(address: str, topic: str) -> None:
    await create_topic(address, topic, retention_ms="77000")
    async with administering(address) as client:

        async def own() -> dict[str, str]:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            ((answer,),) = [response.resources for response in await client.describe_configs([resource])]
            return {name: value for name, value, _, source, *_ in answer[4] if source == 1}

        async def becomes(expected: dict[str, str]) -> None:
            async with asyncio.timeout(SECONDS):
                while await own() != expected:
                    await asyncio.sleep(0.01)

        await becomes({"retention.ms": "77000"})
        changes = ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.ms": "100000"})
        ((answer,),) = [response.resources for response in await client.alter_configs([changes])]
        assert answer[0] == 0
        await becomes({"segment.ms": "100000"})
        wrong = ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.ms": "long"})
        ((answer,),) = [response.resources for response in await client.alter_configs([wrong])]
        assert answer[0] == 40
        await becomes({"segment.ms": "100000"})


@in_loop
async def test_records_are_deleted(address: str, topic: str) -> None:
    partition = await filled(address, topic)
    async with administering(address) as client, assigned(address, partition) as consumer:
        assert await client.delete_records({partition: RecordsToDelete(40)}) == {partition: 40}
        assert await consumer.beginning_offsets([partition]) == {partition: 40}
        with pytest.raises(OffsetOutOfRangeError):
            await client.delete_records({partition: RecordsToDelete(101)})
        assert await client.delete_records({partition: RecordsToDelete(-1)}) == {partition: 100}


# Producing


@pytest.mark.parametrize("codec", CODECS)
@in_loop
async def test_what_is_sent_is_read_whatever_the_compression(address: str, topic: str, codec: str | None) -> None:
    await create_topic(address, topic)
    headers = [("kind", b"test"), ("empty", b""), ("kind", b"again")]
    sent = [
        (b"key %d" % n if n % 7 else None, None if n % 7 == 1 else b"value %d " % n * 20, NOON_MS + n)
        for n in range(300)
    ]
    async with sending(address, compression_type=codec, linger_ms=20) as producer:
        futures = [
            await producer.send(topic, value, key=key, headers=headers, timestamp_ms=timestamp, partition=0)
            for key, value, timestamp in sent
        ]
        assert [(await future).offset for future in futures] == list(range(300))
    got = await read(address, topic, 300)
    assert [(each.key, each.value, each.timestamp) for each in got] == sent
    assert {each.headers for each in got} == {tuple(headers)}
    assert [each.offset for each in got] == list(range(300))


@pytest.mark.parametrize("acks", [0, 1, "all"])
@in_loop
async def test_every_kind_of_acknowledgement(address: str, topic: str, acks: int | str) -> None:
    await create_topic(address, topic)
    async with sending(address, acks=acks) as producer:
        futures = [await producer.send(topic, value, partition=0) for value in numbers(100)]
        answers = [await future for future in futures]
    if acks == 0:  # nobody tells where they went
        assert answers == [None] * 100
    else:
        assert [each.offset for each in answers] == list(range(100))
    assert [each.value for each in await read(address, topic, 100)] == numbers(100)


@in_loop
async def test_an_idempotent_producer_writes_everything_once_and_in_order(address: str, topic: str) -> None:
    await create_topic(address, topic, 3)
    async with sending(address, enable_idempotence=True, max_batch_size=200) as producer:
        for n, value in enumerate(numbers(900)):
            await producer.send(topic, value, partition=n % 3)
        await producer.flush()
    for index in range(3):
        got = await read(address, topic, 300, partition=index)
        assert [each.value for each in got] == numbers(index, 900, 3)


@in_loop
async def test_a_topic_is_created_by_the_first_message(address: str, topic: str) -> None:
    async with sending(address) as producer:
        assert (await producer.send_and_wait(topic, b"first")).offset == 0
    assert [each.value for each in await read(address, topic, 1)] == [b"first"]


@in_loop
async def test_what_a_topic_does_not_take_is_refused_by_name(address: str, topic: str) -> None:
    await create_topic(address, topic, max_message_bytes="5000000", message_timestamp_after_max_ms="60000")
    await create_topic(address, f"{topic}-compacted", cleanup_policy="compact")
    content = random.Random(1).randbytes(6_000_000)
    async with sending(address, max_request_size=10_000_000) as producer:
        assert (await producer.send_and_wait(topic, content[:4_900_000], partition=0)).offset == 0
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, content, partition=0)
        later_ms = int(time.time() * 1000) + 3_600_000
        with pytest.raises(InvalidTimestampError):
            await producer.send_and_wait(topic, b"value", timestamp_ms=later_ms, partition=0)
        with pytest.raises(UnknownError):  # INVALID_RECORD is younger than its list of errors
            await producer.send_and_wait(f"{topic}-compacted", b"without a key")
        assert (await producer.send_and_wait(f"{topic}-compacted", b"value", key=b"key")).offset == 0
    # Far above what a fetch asks for, and sent all the same: the first batch always is.
    (got,) = await read(address, topic, 1, max_partition_fetch_bytes=1000)
    assert got.value == content[:4_900_000]


# Consuming


@in_loop
async def test_offsets_times_and_seeking(address: str, topic: str) -> None:
    partition = await filled(address, topic)
    async with assigned(address, partition) as consumer:
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 100}
        for asked, expected in ((NOON_MS - 1, 0), (NOON_MS + 1, 1), (NOON_MS + 99_000, 99)):
            found = (await consumer.offsets_for_times({partition: asked}))[partition]
            assert (found.offset, found.timestamp) == (expected, NOON_MS + expected * 1000)
        assert await consumer.offsets_for_times({partition: NOON_MS + 99_001}) == {partition: None}
        assert [each.value for each in await take(consumer, 10)] == numbers(10)
        assert await consumer.position(partition) == 10
        consumer.seek(partition, 90)
        assert [each.value for each in await take(consumer, 10)] == numbers(90, 100)
        assert consumer.highwater(partition) == 100
        await consumer.seek_to_end(partition)
        async with sending(address) as producer:
            await producer.send_and_wait(topic, b"100", partition=0)
        assert [each.value for each in await take(consumer, 1)] == [b"100"]
        await consumer.seek_to_beginning(partition)
        assert [each.value for each in await take(consumer, 3)] == numbers(3)


@in_loop
async def test_where_no_offset_is_the_reset_policy_decides(address: str, topic: str) -> None:
    partition = await filled(address, topic)
    async with assigned(address, partition) as consumer:
        consumer.seek(partition, 1000)
        with pytest.raises(OffsetOutOfRangeError):
            await take(consumer, 1)
    async with assigned(address, partition, auto_offset_reset="earliest") as consumer:
        consumer.seek(partition, 1000)
        assert [each.value for each in await take(consumer, 3)] == numbers(3)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@in_loop
async def test_every_isolation_level_reads_what_no_transaction_wrote(address: str, topic: str, isolation: str) -> None:
    await filled(address, topic)
    got = await read(address, topic, 100, isolation_level=isolation)
    assert [each.value for each in got] == numbers(100)


@in_loop
async def test_many_partitions_are_read_at_once_in_small_portions(address: str, topic: str) -> None:
    await create_topic(address, topic, 10)
    async with sending(address) as producer:
        for n in range(500):
            await producer.send(topic, b"%d " % n * 100, partition=n % 10)
        await producer.flush()
    partitions = [TopicPartition(topic, index) for index in range(10)]
    async with assigned(address, *partitions, fetch_max_bytes=20_000, max_partition_fetch_bytes=5000) as consumer:
        got = await take(consumer, 500)
    for index in range(10):
        mine = [each.value for each in got if each.partition == index]
        assert mine == [b"%d " % n * 100 for n in range(index, 500, 10)]


@in_loop
async def test_partitions_that_are_added_are_found_by_a_running_producer(address: str, topic: str) -> None:
    await create_topic(address, topic)
    async with sending(address, metadata_max_age_ms=100) as producer, administering(address) as client:
        assert await producer.partitions_for(topic) == {0}
        await client.create_partitions({topic: NewPartitions(3)})
        async with asyncio.timeout(SECONDS):
            while await producer.partitions_for(topic) != {0, 1, 2}:
                await asyncio.sleep(0.01)
        assert (await producer.send_and_wait(topic, b"new", partition=2)).offset == 0
    assert [each.value for each in await read(address, topic, 1, partition=2)] == [b"new"]


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@in_loop
async def test_clients_go_on_when_the_broker_comes_back(tmp_path: Path, topic: str, crash: bool) -> None:
    """Every record is there once, in order: what was sent before, while it was away, and after."""
    with BrokerProcess(tmp_path) as broker:
        partition = TopicPartition(await create_topic(broker.bootstrap, topic), 0)
        async with (
            sending(broker.bootstrap, enable_idempotence=True, retry_backoff_ms=20) as producer,
            assigned(broker.bootstrap, partition, retry_backoff_ms=20) as consumer,
        ):
            for value in numbers(100):
                await producer.send(topic, value, partition=0)
            await producer.flush()
            assert [each.value for each in await take(consumer, 100)] == numbers(100)
            await asyncio.to_thread(broker.kill if crash else broker.stop)
            for value in numbers(100, 200):
                await producer.send(topic, value, partition=0)
            await asyncio.to_thread(broker.start)
            for value in numbers(200, 300):
                await producer.send(topic, value, partition=0)
            await asyncio.wait_for(producer.flush(), SECONDS)
            assert [each.value for each in await take(consumer, 200)] == numbers(100, 300)
