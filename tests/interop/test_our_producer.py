"""Our producer and our Arrow tables do the same against Headrace and against Apache Kafka."""

import asyncio
import random

import pyarrow as pa
import pytest

import headrace
import headrace.aio
import headrace.arrow
from headrace.client.errors import FencedError, KafkaError, RecordTooLargeError
from headrace.client.murmur2 import partition_of
from tests.support.both_brokers import unique
from tests.support.topic_reading import read_topic
from tests.support.waiting import wait_until


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = unique("topic")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=3)
    return name


def test_records_arrive_once_in_order_with_all_they_have(bootstrap: str, topic: str) -> None:
    with headrace.Producer(bootstrap) as producer:
        sent = [
            producer.send(topic, f"v{number}", f"k{number % 7}", headers=[("n", b"%d" % number)])
            for number in range(2_000)
        ]
    assert all(each.exception(0) is None for each in sent)
    records = read_topic(bootstrap, topic)
    assert len(records) == 2_000
    for key in range(7):
        own = [int((record.value or b"v-1")[1:]) for record in records if record.key == b"k%d" % key]
        assert own == list(range(key, 2_000, 7))
    assert all(dict(record.headers)["n"] == (record.value or b"")[1:] for record in records)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(bootstrap: str, topic: str, codec: str) -> None:
    with headrace.Producer(bootstrap, compression_type=codec, acks="all") as producer:
        for number in range(100):
            producer.send(topic, f"value {number}", partition=0)
    assert [record.value for record in read_topic(bootstrap, topic)] == [b"value %d" % number for number in range(100)]


def test_without_idempotence_and_with_every_kind_of_acknowledgement(bootstrap: str, topic: str) -> None:
    for acks in ("0", "1", "all"):
        with headrace.Producer(bootstrap, acks=acks, enable_idempotence=False) as producer:
            producer.send(topic, acks, partition=0)
    # With acks=0 nobody says when it is written.
    assert {record.value for record in read_topic(bootstrap, topic)} >= {b"1", b"all"}


def test_what_the_broker_refuses(bootstrap: str) -> None:
    name = unique("small")
    with headrace.Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=1, configs={"max.message.bytes": 2_000})
    with headrace.Producer(bootstrap, linger_ms=1_000) as producer:
        small = [producer.send(name, bytes(100)) for _ in range(100)]
        large = producer.send(name, random.Random(1).randbytes(5_000))
        producer.flush(120)
        assert isinstance(large.exception(0), RecordTooLargeError)
        assert sorted(each.result(0).offset for each in small) == list(range(100))


def committed(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """What can be read of it when that is `count` or more: markers follow the answer to who ends a transaction."""
    found: list[bytes | None] = []

    def is_there() -> bool:
        found[:] = [record.value for record in read_topic(bootstrap, topic, committed=True)]
        return len(found) >= count

    wait_until(is_there, "the markers of the last transaction")
    return found


def test_transactions(bootstrap: str, topic: str) -> None:
    with headrace.Producer(bootstrap, transactional_id=unique("tx")) as producer:
        for number in range(6):
            producer_block = producer.transaction()
            try:
                with producer_block:
                    for partition in range(3):
                        producer.send(topic, f"{number}", partition=partition)
                    if number % 2:
                        raise LookupError
            except LookupError:
                continue
    assert committed(bootstrap, topic, 9) == [b"0", b"2", b"4"] * 3


def test_offsets_in_transactions_and_fencing(bootstrap: str, topic: str) -> None:
    name, group = unique("tx"), unique("group")
    place = headrace.TopicPartition(topic, 0)
    with (
        headrace.Admin(bootstrap) as admin,
        headrace.Producer(bootstrap, transactional_id=name) as first,
        headrace.Producer(bootstrap, transactional_id=name) as second,
    ):
        with first.transaction():
            first.send(topic, b"a", partition=0)
            first.send_offsets({place: 7}, group)
        assert admin.list_group_offsets(group)[place].offset == 7
        first.begin_transaction()
        first.send(topic, b"b", partition=0).result(120)
        first.send_offsets({place: 8}, group)
        with second.transaction():
            second.send(topic, b"c", partition=0)
        with pytest.raises(FencedError):
            first.commit_transaction()
        assert admin.list_group_offsets(group)[place].offset == 7
    assert committed(bootstrap, topic, 2) == [b"a", b"c"]


def test_asyncio(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with headrace.aio.Producer(bootstrap) as producer:
            deliveries = [await producer.send(topic, str(number), partition=1) for number in range(500)]
            assert [(await each).offset for each in deliveries] == list(range(500))

    asyncio.run(main())


def test_a_topic_that_nobody_may_have(bootstrap: str) -> None:
    with headrace.Producer(bootstrap, max_block_ms=3_000) as producer, pytest.raises(KafkaError, match="INVALID_TOPIC"):
        producer.send("no/such/name", b"v")


def test_tables_go_in_and_come_out(bootstrap: str, topic: str) -> None:
    rows = pa.table({"key": [f"k{n % 50}" for n in range(5_000)], "value": [f"v{n}" for n in range(5_000)]})
    assert headrace.arrow.write(rows, topic, bootstrap, compression_type="lz4") == 5_000
    table = headrace.arrow.read(topic, bootstrap)
    assert sorted(table.column("value").to_pylist()) == sorted(f"v{n}".encode() for n in range(5_000))
    for key, partition in zip(table.column("key").to_pylist(), table.column("partition").to_pylist(), strict=True):
        assert partition == partition_of(key, 3)
    with headrace.Producer(bootstrap, transactional_id=unique("tx")) as producer:
        with producer.transaction():
            headrace.arrow.write(rows.slice(0, 100), topic, producer)
        producer.begin_transaction()
        headrace.arrow.write(rows.slice(100, 100), topic, producer)
        producer.abort_transaction()
    assert headrace.arrow.read(topic, bootstrap, isolation="read_committed").num_rows == 5_100
    assert headrace.arrow.read(topic, bootstrap).num_rows == 5_200
