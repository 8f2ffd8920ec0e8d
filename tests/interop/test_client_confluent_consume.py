"""confluent-kafka (librdkafka) consumes partitions that it assigns itself, and goes on when the broker comes back."""

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions

from tests.support.broker_process import BrokerProcess
from tests.support.clients_confluent import (
    SECONDS,
    admin,
    assigned,
    create_topic,
    outcomes,
    sender,
    take,
    take_one,
    values,
)
from tests.support.waiting import wait_until

NOON_MS = 1_700_000_000_000


def numbers(*bounds: int) -> list[bytes]:
    return [b"%d" % n for n in range(*bounds)]


@pytest.fixture
def filled(address: str, topic: str) -> str:
    """A topic with the numbers 0 to 99, a second apart."""
    create_topic(address, topic)
    producer = sender(address)
    for n, value in enumerate(numbers(100)):
        producer.send(topic, value, partition=0, timestamp=NOON_MS + n * 1000)
    producer.flush()
    assert len(producer.delivered) == 100
    return topic


def test_reading_begins_where_the_assignment_says(address: str, filled: str) -> None:
    for offset, count, expected in (
        (OFFSET_BEGINNING, 100, numbers(100)),
        (40, 60, numbers(40, 100)),
        (99, 1, numbers(99, 100)),
    ):
        with assigned(address, TopicPartition(filled, 0, offset)) as consumer:
            assert values(take(consumer, count)) == expected
    with assigned(address, TopicPartition(filled, 0, OFFSET_END), enable_partition_eof=True) as consumer:
        with pytest.raises(KafkaException) as caught:
            take_one(consumer)  # only when it is at the end will it see what comes after
        assert caught.value.args[0].code() == KafkaError._PARTITION_EOF
        producer = sender(address)
        producer.send(filled, b"100", partition=0)
        producer.flush()
        assert values(take(consumer, 1)) == [b"100"]


def test_where_no_offset_is_the_reset_policy_decides(address: str, filled: str) -> None:
    nowhere = TopicPartition(filled, 0, 1000)
    with assigned(address, nowhere, auto_offset_reset="earliest") as consumer:
        assert values(take(consumer, 100)) == numbers(100)
    with assigned(address, nowhere, auto_offset_reset="error") as consumer, pytest.raises(KafkaException) as caught:
        take_one(consumer)
    assert caught.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_offsets_are_found_by_time(address: str, filled: str) -> None:
    asked = [NOON_MS - 1, NOON_MS, NOON_MS + 1, NOON_MS + 99_000, NOON_MS + 99_001]
    with assigned(address) as consumer:
        found = [
            consumer.offsets_for_times([TopicPartition(filled, 0, time)], timeout=SECONDS)[0].offset for time in asked
        ]
    assert found == [0, 0, 1, 99, OFFSET_END]


def test_watermarks_and_positions(address: str, filled: str) -> None:
    partition = TopicPartition(filled, 0)
    with assigned(address, TopicPartition(filled, 0, 10)) as consumer:
        assert consumer.get_watermark_offsets(partition, timeout=SECONDS) == (0, 100)
        take(consumer, 5)
        assert consumer.position([partition])[0].offset == 15
        client = admin(address)
        (deleted,) = outcomes(client.delete_records([TopicPartition(filled, 0, 30)])).values()
        assert deleted.low_watermark == 30
        assert consumer.get_watermark_offsets(partition, timeout=SECONDS) == (30, 100)


def test_seeking_pausing_and_resuming(address: str, filled: str) -> None:
    partition = TopicPartition(filled, 0)
    with assigned(address, TopicPartition(filled, 0, OFFSET_BEGINNING)) as consumer:
        assert values(take(consumer, 10)) == numbers(10)
        consumer.seek(TopicPartition(filled, 0, 90))
        assert values(take(consumer, 10)) == numbers(90, 100)
        consumer.pause([partition])
        producer = sender(address)
        producer.send(filled, b"100", partition=0)
        producer.flush()
        assert consumer.poll(0.2) is None
        consumer.resume([partition])
        assert values(take(consumer, 1)) == [b"100"]
        consumer.seek(TopicPartition(filled, 0, 5))
        assert values(take(consumer, 3)) == numbers(5, 8)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_isolation_level_reads_what_no_transaction_wrote(address: str, filled: str, isolation: str) -> None:
    with assigned(address, TopicPartition(filled, 0, OFFSET_BEGINNING), isolation_level=isolation) as consumer:
        assert values(take(consumer, 100)) == numbers(100)


def test_many_partitions_are_read_at_once_in_small_portions(address: str, topic: str) -> None:
    create_topic(address, topic, 10)
    producer = sender(address)
    for n in range(1000):
        producer.send(topic, b"%d " % n * 100, partition=n % 10)
    producer.flush()
    partitions = [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(10)]
    portions = {"message_max_bytes": 5000, "fetch_message_max_bytes": 5000, "fetch_max_bytes": 20_000}
    with assigned(address, *partitions, **portions) as consumer:
        got = take(consumer, 1000)
    for index in range(10):
        mine = [message.value() for message in got if message.partition() == index]
        assert mine == [b"%d " % n * 100 for n in range(index, 1000, 10)]


def test_asking_about_a_topic_that_is_not_there_is_an_error_and_creates_none(address: str, topic: str) -> None:
    with assigned(address) as consumer:
        with pytest.raises(KafkaException) as caught:
            consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS)
        assert caught.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
        assert topic not in consumer.list_topics(timeout=SECONDS).topics


def test_partitions_that_are_added_are_found_by_running_clients(address: str, topic: str) -> None:
    create_topic(address, topic)
    fresh = {"topic_metadata_refresh_interval_ms": 100}
    producer = sender(address, **fresh)
    with assigned(address, TopicPartition(topic, 0, OFFSET_BEGINNING), **fresh) as consumer:
        producer.send(topic, b"before", partition=0)
        assert values(take(consumer, 1)) == [b"before"]
        client = admin(address)
        assert outcomes(client.create_partitions([NewPartitions(topic, 3)])) == {topic: None}
        wait_until(
            lambda: len(producer.producer.list_topics(topic, SECONDS).topics[topic].partitions) == 3,
            "the producer knows the new partitions",
        )
        producer.send(topic, b"after", partition=2)
        producer.flush()
        assert not producer.failed
        consumer.incremental_assign([TopicPartition(topic, 2, OFFSET_BEGINNING)])
        assert values(take(consumer, 1)) == [b"after"]


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
def test_clients_go_on_when_the_broker_comes_back(tmp_path: Path, topic: str, crash: bool) -> None:
    """Every record is there once, in order: what was sent before, while it was away, and after."""
    with BrokerProcess(tmp_path) as broker:
        create_topic(broker.bootstrap, topic)
        quick = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50}
        producer = sender(broker.bootstrap, enable_idempotence=True, retry_backoff_ms=20, **quick)
        with assigned(broker.bootstrap, TopicPartition(topic, 0, OFFSET_BEGINNING), **quick) as consumer:
            for value in numbers(100):
                producer.send(topic, value, partition=0)
            producer.flush()
            assert values(take(consumer, 100)) == numbers(100)
            if crash:
                broker.kill()
            else:
                broker.stop()
            for value in numbers(100, 200):
                producer.send(topic, value, partition=0)
            broker.start()
            for value in numbers(200, 300):
                producer.send(topic, value, partition=0)
            producer.flush()
            assert not producer.failed
            assert values(take(consumer, 200)) == numbers(100, 300)
