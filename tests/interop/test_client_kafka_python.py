"""kafka-python produces, and consumes partitions that it assigns itself."""

import random
import time
from pathlib import Path

import pytest
from kafka import TopicPartition
from kafka.errors import (
    InvalidTimestampError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from tests.support.broker_process import BrokerProcess
from tests.support.clients_kafka_python import SECONDS, admin, assigned, create_topic, read, sending, take

NOON_MS = 1_700_000_000_000
CODECS = [None, "gzip", "lz4", "zstd"]  # snappy wants a library more


def numbers(*bounds: int) -> list[bytes]:
    return [b"%d" % n for n in range(*bounds)]


@pytest.fixture
def filled(address: str, topic: str) -> TopicPartition:
    """A partition with the numbers 0 to 99, a second apart."""
    create_topic(address, topic)
    with sending(address) as producer:
        for n, value in enumerate(numbers(100)):
            producer.send(topic, value, partition=0, timestamp_ms=NOON_MS + n * 1000)
        producer.flush(SECONDS)
    return TopicPartition(topic, 0)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_sent_is_read_whatever_the_compression(address: str, topic: str, codec: str | None) -> None:
    create_topic(address, topic)
    headers = [("kind", b"test"), ("empty", b""), ("kind", b"again")]
    sent = [
        (b"key %d" % n if n % 7 else None, None if n % 7 == 1 else b"value %d " % n * 20, NOON_MS + n)
        for n in range(300)
    ]
    with sending(address, compression_type=codec, linger_ms=20) as producer:
        futures = [
            producer.send(topic, value, key=key, headers=headers, timestamp_ms=timestamp, partition=0)
            for key, value, timestamp in sent
        ]
        assert [future.get(SECONDS).offset for future in futures] == list(range(300))
    got = read(address, topic, 300)
    assert [(each.key, each.value, each.timestamp) for each in got] == sent
    assert [each.offset for each in got] == list(range(300))
    assert {tuple(each.headers) for each in got} == {tuple(headers)}


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(address: str, topic: str, acks: int | str) -> None:
    create_topic(address, topic)
    with sending(address, acks=acks, enable_idempotence=False) as producer:
        futures = [producer.send(topic, value, partition=0) for value in numbers(100)]
        producer.flush(SECONDS)
        offsets = [future.get(SECONDS).offset for future in futures]
    if acks != 0:  # then nobody tells, and kafka-python makes numbers up
        assert offsets == list(range(100))
    assert [each.value for each in read(address, topic, 100)] == numbers(100)


def test_an_idempotent_producer_writes_everything_once_and_in_order(address: str, topic: str) -> None:
    create_topic(address, topic, 3)
    with sending(address, enable_idempotence=True, batch_size=200, linger_ms=0) as producer:
        for n, value in enumerate(numbers(900)):
            producer.send(topic, value, partition=n % 3)
        producer.flush(SECONDS)
    for index in range(3):
        got = read(address, topic, 300, partition=index)
        assert [each.value for each in got] == numbers(index, 900, 3)


def test_a_topic_is_created_by_the_first_message(address: str, topic: str) -> None:
    with sending(address) as producer:
        assert producer.send(topic, b"first").get(SECONDS).offset == 0
    assert [each.value for each in read(address, topic, 1)] == [b"first"]


def test_what_a_topic_does_not_take_is_refused_by_name(address: str, topic: str) -> None:
    create_topic(address, topic, max_message_bytes="5000000", message_timestamp_after_max_ms="60000")
    create_topic(address, f"{topic}-compacted", cleanup_policy="compact")
    content = random.Random(1).randbytes(6_000_000)
    with sending(address, max_request_size=10_000_000, retries=0, enable_idempotence=False) as producer:
        assert producer.send(topic, content[:4_900_000], partition=0).get(SECONDS).offset == 0
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, content, partition=0).get(SECONDS)
        later_ms = int(time.time() * 1000) + 3_600_000
        with pytest.raises(InvalidTimestampError):
            producer.send(topic, b"value", timestamp_ms=later_ms, partition=0).get(SECONDS)
        with pytest.raises(KafkaError) as caught:
            producer.send(f"{topic}-compacted", b"without a key").get(SECONDS)
        assert caught.value.errno == 87  # INVALID_RECORD
    # Far above what a fetch asks for, and sent all the same: the first batch always is.
    assert [each.value for each in read(address, topic, 1, max_partition_fetch_bytes=1000)] == [content[:4_900_000]]


@pytest.mark.slow
def test_where_topics_are_not_made_up_a_producer_waits_in_vain(tmp_path: Path, topic: str) -> None:
    with BrokerProcess(tmp_path, configs={"auto.create.topics.enable": "false"}) as broker:
        with sending(broker.bootstrap, max_block_ms=300) as producer, pytest.raises(KafkaTimeoutError):
            producer.send(topic, b"value").get(SECONDS)
        with admin(broker.bootstrap) as client:
            assert client.list_topics() == []


def test_offsets_times_and_seeking(address: str, filled: TopicPartition) -> None:
    with assigned(address, filled) as consumer:
        assert consumer.beginning_offsets([filled]) == {filled: 0}
        assert consumer.end_offsets([filled]) == {filled: 100}
        for asked, expected in ((NOON_MS - 1, 0), (NOON_MS + 1, 1), (NOON_MS + 99_000, 99)):
            found = consumer.offsets_for_times({filled: asked})[filled]
            assert (found.offset, found.timestamp) == (expected, NOON_MS + expected * 1000)
        assert consumer.offsets_for_times({filled: NOON_MS + 99_001}) == {filled: None}
        assert [each.value for each in take(consumer, 10)] == numbers(10)
        assert consumer.position(filled) == 10
        consumer.seek(filled, 90)
        assert [each.value for each in take(consumer, 10)] == numbers(90, 100)
        assert consumer.highwater(filled) == 100
        consumer.seek_to_end(filled)
        assert consumer.position(filled) == 100
        with sending(address) as producer:
            producer.send(filled.topic, b"100", partition=0).get(SECONDS)
        assert [each.value for each in take(consumer, 1)] == [b"100"]
        consumer.seek_to_beginning(filled)
        assert [each.value for each in take(consumer, 3)] == numbers(3)


def test_where_no_offset_is_the_reset_policy_decides(address: str, filled: TopicPartition) -> None:
    with assigned(address, filled) as consumer:
        consumer.seek(filled, 1000)
        with pytest.raises((OffsetOutOfRangeError, NoOffsetForPartitionError)):
            consumer.poll(SECONDS * 1000)
    with assigned(address, filled, auto_offset_reset="earliest") as consumer:
        consumer.seek(filled, 1000)
        assert [each.value for each in take(consumer, 3)] == numbers(3)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_isolation_level_reads_what_no_transaction_wrote(
    address: str, filled: TopicPartition, isolation: str
) -> None:
    got = read(address, filled.topic, 100, isolation_level=isolation)
    assert [each.value for each in got] == numbers(100)


def test_many_partitions_are_read_at_once_in_small_portions(address: str, topic: str) -> None:
    create_topic(address, topic, 10)
    with sending(address) as producer:
        for n in range(500):
            producer.send(topic, b"%d " % n * 100, partition=n % 10)
        producer.flush(SECONDS)
    partitions = [TopicPartition(topic, index) for index in range(10)]
    with assigned(address, *partitions, fetch_max_bytes=20_000, max_partition_fetch_bytes=5000) as consumer:
        got = take(consumer, 500)
    for index in range(10):
        assert [each.value for each in got if each.partition == index] == [
            b"%d " % n * 100 for n in range(index, 500, 10)
        ]


def test_partitions_that_are_added_are_found_by_a_running_producer(address: str, topic: str) -> None:
    create_topic(address, topic)
    with sending(address, metadata_max_age_ms=100) as producer:
        assert producer.partitions_for(topic) == {0}
        with admin(address) as client:
            client.create_partitions({topic: 3})
        deadline = time.monotonic() + SECONDS
        while producer.partitions_for(topic) != {0, 1, 2}:
            assert time.monotonic() < deadline
            producer.send(topic, b"still", partition=0).get(SECONDS)
        assert producer.send(topic, b"new", partition=2).get(SECONDS).offset == 0
    assert [each.value for each in read(address, topic, 1, partition=2)] == [b"new"]


@pytest.mark.slow
@pytest.mark.usefixtures("forgotten_sockets")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
def test_clients_go_on_when_the_broker_comes_back(tmp_path: Path, topic: str, crash: bool) -> None:
    """Every record is there once, in order: what was sent before, while it was away, and after."""
    quick = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50, "retry_backoff_ms": 20}
    with BrokerProcess(tmp_path) as broker:
        partition = TopicPartition(create_topic(broker.bootstrap, topic), 0)
        with (
            sending(broker.bootstrap, enable_idempotence=True, **quick) as producer,
            assigned(broker.bootstrap, partition, **quick) as consumer,
        ):
            for value in numbers(100):
                producer.send(topic, value, partition=0)
            producer.flush(SECONDS)
            assert [each.value for each in take(consumer, 100)] == numbers(100)
            if crash:
                broker.kill()
            else:
                broker.stop()
            for value in numbers(100, 200):
                producer.send(topic, value, partition=0)
            broker.start()
            for value in numbers(200, 300):
                producer.send(topic, value, partition=0)
            producer.flush(SECONDS)
            assert [each.value for each in take(consumer, 200)] == numbers(100, 300)
