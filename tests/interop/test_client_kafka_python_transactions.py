"""kafka-python in transactions, and its administration of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import AbortTransactionSpec
from kafka.errors import KafkaError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.support.clients_kafka_python import SECONDS, admin, assigned, create_topic, sending
from tests.support.clients_kafka_python_groups import crew
from tests.support.waiting import wait_until

PARTITIONS = 3


@pytest.fixture
def made(address: str, topic: str) -> str:
    return create_topic(address, topic, PARTITIONS)


@contextmanager
def transactional(address: str, name: str) -> Iterator[Any]:
    with sending(address, transactional_id=name, retry_backoff_ms=20) as producer:
        producer.init_transactions()
        yield producer


def write(producer: Any, topic: str, numbers: range) -> None:
    futures = [producer.send(topic, b"%d" % number, partition=number % PARTITIONS) for number in numbers]
    for future in futures:
        future.get(SECONDS)


def read_all(address: str, topic: str, isolation: str) -> list[int]:
    """What a consumer finds up to the ends that hold for it."""
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    found: list[int] = []
    with assigned(address, *places, isolation_level=isolation, fetch_max_wait_ms=20) as consumer:
        ends = consumer.end_offsets(places)

        def is_done() -> bool:
            for records in consumer.poll(timeout_ms=20).values():
                found.extend(int(record.value) for record in records)
            return all(consumer.position(place) >= ends[place] for place in places)

        wait_until(is_done, "everything is read", seconds=SECONDS)
    return sorted(found)


def test_what_is_committed_is_read_and_what_is_aborted_or_open_is_not(address: str, made: str) -> None:
    with transactional(address, made) as producer, sending(address) as other:
        for first in range(0, 40, 10):
            producer.begin_transaction()
            write(producer, made, range(first, first + 10))
            if first % 20:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        committed = [*range(10), *range(20, 30)]
        assert read_all(address, made, "read_committed") == committed
        assert read_all(address, made, "read_uncommitted") == list(range(40))
        producer.begin_transaction()
        write(producer, made, range(40, 50))
        write(other, made, range(50, 56))  # nobody may read past the open transaction
        assert read_all(address, made, "read_committed") == committed
        producer.commit_transaction()
        assert read_all(address, made, "read_committed") == [*committed, *range(40, 56)]


def test_a_second_producer_with_the_same_name_fences_the_first(address: str, made: str) -> None:
    with transactional(address, made) as old:
        old.begin_transaction()
        write(old, made, range(10))
        with transactional(address, made) as new:  # and the open transaction is aborted
            new.begin_transaction()
            write(new, made, range(10, 20))
            new.commit_transaction()
        with pytest.raises(ProducerFencedError):
            old.commit_transaction()
    assert read_all(address, made, "read_committed") == list(range(10, 20))


def test_offsets_count_if_the_transaction_is_committed(address: str, made: str) -> None:
    place = TopicPartition(made, 0)
    with transactional(address, made) as producer, crew(address, made) as group:
        member = group.join(made)
        group.share(*((made, index) for index in range(PARTITIONS)))

        def process(numbers: range) -> None:
            producer.begin_transaction()
            write(producer, made, numbers)
            metadata = member.do(lambda consumer: consumer.group_metadata())
            producer.send_offsets_to_transaction({place: OffsetAndMetadata(numbers.stop, "", -1)}, metadata)

        process(range(3))
        producer.abort_transaction()
        assert member.committed((made, 0)) == [None]
        process(range(3, 6))
        producer.commit_transaction()
        assert member.committed((made, 0)) == [6]
        stale = member.do(lambda consumer: consumer.group_metadata())
        group.leave(member)
        producer.begin_transaction()
        write(producer, made, range(6, 9))
        with pytest.raises(KafkaError):
            producer.send_offsets_to_transaction({place: OffsetAndMetadata(9, "", -1)}, stale)
        producer.abort_transaction()
    assert read_all(address, made, "read_committed") == [3, 4, 5]


def test_transactions_are_listed_described_and_aborted(address: str, made: str) -> None:
    place = TopicPartition(made, 0)
    with transactional(address, made) as producer, admin(address) as client:
        producer.begin_transaction()
        write(producer, made, range(3))

        def listed(**filters: Any) -> list[str]:
            rows = [row for found in client.list_transactions(**filters).values() for row in found]
            return [row.state.value for row in rows if row.transactional_id == made]

        assert listed() == ["Ongoing"]
        assert listed(state_filters=["Ongoing"]) == ["Ongoing"]
        assert listed(state_filters=["Empty"]) == []
        assert listed(duration_filter_ms=3_600_000) == []
        told = client.describe_transactions([made])[made]
        assert (told.state.value, told.transaction_timeout_ms, told.coordinator_id) == ("Ongoing", 60_000, 1)
        assert told.topic_partitions == {TopicPartition(made, index) for index in range(PARTITIONS)}
        (active,) = client.describe_producers([place])[place].active_producers
        assert (active.producer_id, active.producer_epoch) == (told.producer_id, told.producer_epoch)
        assert active.current_transaction_start_offset == 0
        assert made not in {row["transactional_id"] for row in client.find_hanging_transactions()}
        client.abort_transaction(AbortTransactionSpec(place, active.producer_id, active.producer_epoch))
        (active,) = client.describe_producers([place])[place].active_producers
        assert active.current_transaction_start_offset == -1
        assert read_all(address, made, "read_committed") == []
        producer.abort_transaction()
        wait_until(lambda: listed() == ["CompleteAbort"], "the transaction has ended")
